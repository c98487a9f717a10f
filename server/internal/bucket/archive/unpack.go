package archive

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unpack fills the spool file and the index from the tar.gz in r.
func (a *Archive) unpack(ctx context.Context, r io.Reader, options Options) error {
	limits := options.Limits.orDefaults()
	u := &unpacker{
		archive: a, limits: limits, unpacks: options.Unpacks,
		out: bufio.NewWriterSize(a.spool, 256<<10), buffer: make([]byte, 32<<10),
		names: map[string]string{}, groups: map[string]schema.GroupResource{},
	}
	found, err := scan(ctx, r, limits, u.entry)
	if err != nil {
		return err
	}
	a.formatVersion, a.hasResources = found.formatVersion, found.hasResources
	if err := u.out.Flush(); err != nil {
		return fmt.Errorf("write the spool file of the archive: %w", err)
	}
	return u.finish()
}

// unpacker holds the state of one walk over the tar.
type unpacker struct {
	archive *Archive
	limits  Limits
	unpacks func(gr schema.GroupResource, namespace string) bool
	out     *bufio.Writer
	buffer  []byte
	written int64
	checked int64             // bytes that may be written before the free space is looked at again
	names   map[string]string // one copy of the name of each namespace
	kept    strings.Builder   // of names of objects
	groups  map[string]schema.GroupResource
}

func (u *unpacker) entry(e scanned) error {
	if e.version != "" && u.archive.versions == nil {
		return nil
	}
	gr, namespace := u.intern(e.gr, e.namespace)
	if preferred, is := strings.CutSuffix(e.version, preferredSuffix); is {
		u.versionsOf(gr).preferred = preferred // the same object has a path without a version
		return nil
	}
	found := record{namespace: namespace, name: u.keep(e.name), offset: notUnpacked}
	if u.unpacks == nil || u.unpacks(gr, namespace) {
		if err := u.unpack(&found, e); err != nil {
			return err
		}
	}
	if e.version == "" {
		u.archive.index[gr] = append(u.archive.index[gr], found)
		return nil
	}
	others := u.versionsOf(gr).others
	others[e.version] = append(others[e.version], found)
	return nil
}

// keep returns a copy of the name of an object, which does not hold its path in memory. Many names share one piece of
// memory.
func (u *unpacker) keep(name string) string {
	const piece = 16 << 10
	if u.kept.Cap()-u.kept.Len() < len(name) {
		u.kept = strings.Builder{}
		u.kept.Grow(max(piece, len(name)))
	}
	at := u.kept.Len()
	u.kept.WriteString(name)
	return u.kept.String()[at:]
}

// unpack appends an object to the spool file.
func (u *unpacker) unpack(to *record, e scanned) (err error) {
	if err := u.checkSpace(e.where); err != nil {
		return err
	}
	to.offset = u.written
	// Without the struct, out would let the file read the body, which makes a buffer and a write for each object.
	to.size, err = io.CopyBuffer(struct{ io.Writer }{u.out}, e.body, u.buffer)
	u.written += to.size
	if err != nil {
		return e.explain(err)
	}
	return nil
}

// checkSpace returns an error if the disk of the spool file is nearly full. It asks the system now and then.
func (u *unpacker) checkSpace(where location) error {
	const every = 64 << 20
	if u.written < u.checked {
		return nil
	}
	u.checked = u.written + every
	free, known := FreeSpace(u.archive.spool)
	if known && free < u.limits.FreeBytes+every {
		return fmt.Errorf("%w: %s: %d bytes are free in %s after %d bytes were unpacked, and %d are to stay free; use a "+
			"larger --scratch-dir",
			ErrLimit, where, free, filepath.Dir(u.archive.spool.Name()), u.written, u.limits.FreeBytes)
	}
	return nil
}

// versionsOf returns the versions of the objects of a type.
func (u *unpacker) versionsOf(gr schema.GroupResource) *versions {
	v := u.archive.versions[gr]
	if v == nil {
		v = &versions{others: map[string][]record{}}
		u.archive.versions[gr] = v
	}
	return v
}

// intern returns the same strings for equal arguments, so that the index holds one copy of what many objects share.
func (u *unpacker) intern(gr schema.GroupResource, namespace string) (schema.GroupResource, string) {
	key := gr.String()
	if known, ok := u.groups[key]; ok {
		gr = known
	} else {
		gr = schema.ParseGroupResource(strings.Clone(key))
		u.groups[key] = gr
	}
	if known, ok := u.names[namespace]; ok {
		return gr, known
	}
	namespace = strings.Clone(namespace)
	u.names[namespace] = namespace
	return gr, namespace
}

// finish sorts the index. It returns an error if an object occurs twice.
func (u *unpacker) finish() error {
	a := u.archive
	for gr, v := range a.versions {
		for version, records := range v.others {
			if err := sortRecords(gr, version, records); err != nil {
				return err
			}
		}
	}
	for gr, records := range a.index {
		if err := sortRecords(gr, "", records); err != nil {
			return err
		}
		a.index[gr] = slices.Clone(records) // without the room for more
		a.length += len(records)
		a.resources = append(a.resources, gr)
	}
	slices.SortFunc(a.resources, func(x, y schema.GroupResource) int { return strings.Compare(x.String(), y.String()) })
	return nil
}

// sortRecords sorts the objects of a type in one version and returns an error if one occurs twice.
func sortRecords(gr schema.GroupResource, version string, records []record) error {
	slices.SortStableFunc(records, compareRecords)
	for i := 1; i < len(records); i++ {
		if compareRecords(records[i-1], records[i]) == 0 {
			return fmt.Errorf("%w: %s is in the archive twice, want each object once",
				ErrDuplicate, quotedPath(ItemPath(gr, version, records[i].namespace, records[i].name)))
		}
	}
	return nil
}
