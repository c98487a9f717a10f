package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/nametable"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// unpack fills the spool file and the index from the tar.gz in r.
func (a *Archive) unpack(ctx context.Context, r io.Reader, options Options) error {
	limits := options.Limits.orDefaults()
	u := &unpacker{
		archive: a, limits: limits, unpacks: options.Unpacks,
		out: bufio.NewWriterSize(a.spool, 256<<10), buffer: make([]byte, 32<<10),
		namespaces: map[string]nametable.Name{}, groups: map[string]schema.GroupResource{},
	}
	found, err := scan(ctx, r, limits, u.entry)
	if err != nil {
		return err
	}
	a.formatVersion, a.hasResources = found.formatVersion, found.hasResources
	if err := u.out.Flush(); err != nil {
		return spoolError("its end", err)
	}
	return u.finish()
}

// unpacker holds the state of one walk over the tar.
type unpacker struct {
	archive    *Archive
	limits     Limits
	unpacks    func(gr schema.GroupResource, namespace string) bool
	out        *bufio.Writer
	buffer     []byte
	written    int64
	namespaces map[string]nametable.Name
	groups     map[string]schema.GroupResource
}

func (u *unpacker) entry(e scanned) error {
	if e.version != "" && u.archive.versions == nil {
		return nil
	}
	gr := u.intern(e.gr)
	if preferred, is := strings.CutSuffix(e.version, preferredSuffix); is {
		u.versionsOf(gr).preferred = preferred // the same object has a path without a version
		return nil
	}
	namespace, err := u.namespace(e.namespace)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLimit, e.where, err)
	}
	name, err := u.archive.names.Add(e.name)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLimit, e.where, err)
	}
	found := record{namespace: namespace, name: name, offset: notUnpacked}
	if u.unpacks == nil || u.unpacks(gr, e.namespace) {
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

// unpack appends an object to the spool file.
func (u *unpacker) unpack(to *record, e scanned) error {
	to.offset = u.written
	// Without the struct, out would let the file read the body, which makes a buffer and a write for each object.
	size, err := io.CopyBuffer(struct{ io.Writer }{u.out}, e.body, u.buffer)
	u.written += size
	if err == nil && size > math.MaxUint32 {
		err = fmt.Errorf("%w: %d bytes", ErrLimit, size)
	}
	if err != nil {
		return e.explain(spoolError(e.where.String(), err))
	}
	to.size = uint32(size) //nolint:gosec // checked above
	return nil
}

// spoolError wraps ErrLimit if the disk of the spool file is nearly full.
func spoolError(where string, err error) error {
	if errors.Is(err, spool.ErrFull) {
		return fmt.Errorf("%w: %s: %w", ErrLimit, where, err)
	}
	return err
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
func (u *unpacker) intern(gr schema.GroupResource) schema.GroupResource {
	key := gr.String()
	known, ok := u.groups[key]
	if !ok {
		known = schema.ParseGroupResource(strings.Clone(key))
		u.groups[key] = known
	}
	return known
}

// namespace returns the name of a namespace, of which the index holds one copy.
func (u *unpacker) namespace(name string) (nametable.Name, error) {
	if known, ok := u.namespaces[name]; ok {
		return known, nil
	}
	added, err := u.archive.names.Add(name)
	if err == nil {
		u.namespaces[strings.Clone(name)] = added
	}
	return added, err
}

// finish sorts the index. It returns an error if an object occurs twice.
func (u *unpacker) finish() error {
	a := u.archive
	a.names.Seal()
	for gr, v := range a.versions {
		for version, records := range v.others {
			if err := a.sort(gr, version, records); err != nil {
				return err
			}
		}
	}
	for gr, records := range a.index {
		if err := a.sort(gr, "", records); err != nil {
			return err
		}
		a.index[gr] = slices.Clone(records) // without the room for more
		a.length += len(records)
		a.resources = append(a.resources, gr)
	}
	slices.SortFunc(a.resources, func(x, y schema.GroupResource) int { return strings.Compare(x.String(), y.String()) })
	return nil
}

// sort sorts the objects of a type in one version and returns an error if one occurs twice.
func (a *Archive) sort(gr schema.GroupResource, version string, records []record) error {
	slices.SortStableFunc(records, a.compare)
	for i := 1; i < len(records); i++ {
		if a.compare(records[i-1], records[i]) == 0 {
			return fmt.Errorf("%w: %s is in the archive twice, want each object once", ErrDuplicate, quotedPath(
				ItemPath(gr, version, a.names.Of(records[i].namespace), a.names.Of(records[i].name))))
		}
	}
	return nil
}
