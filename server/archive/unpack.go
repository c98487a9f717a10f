package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unpack fills the spool file and the index from the tar.gz in r.
func (a *Archive) unpack(ctx context.Context, r io.Reader, limits Limits) error {
	src := &source{ctx: ctx, r: r}
	buffered := bufio.NewReaderSize(src, 256<<10)
	switch head, err := buffered.Peek(2); {
	case src.err != nil:
		return fmt.Errorf("read the archive: %w", src.err)
	case len(head) == 0:
		return fmt.Errorf("%w: it is empty (0 bytes), want a gzip-compressed tar", ErrNotArchive)
	case err != nil || head[0] != 0x1f || head[1] != 0x8b:
		return fmt.Errorf("%w: it does not start like gzip (starts with %#x), want a gzip-compressed tar", ErrNotArchive, head)
	}
	unzipped, err := gzip.NewReader(buffered)
	if err != nil {
		return src.explain(err, "in the gzip header")
	}
	in := &meter{r: unzipped, source: src, limits: limits}
	u := &unpacker{archive: a, limits: limits, out: bufio.NewWriterSize(a.spool, 256<<10)}
	if err := u.entries(in, tar.NewReader(in)); err != nil {
		return err
	}
	// The checksum follows the end of the tar.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return in.explain(err, "after the last entry")
	}
	if err := u.out.Flush(); err != nil {
		return fmt.Errorf("write the spool file of the archive: %w", err)
	}
	return u.finish()
}

// unpacker holds the state of one walk over the tar.
type unpacker struct {
	archive *Archive
	limits  Limits
	out     *bufio.Writer
	written int64
	checked int64             // bytes that may be written before the free space is looked at again
	count   int               // entries seen
	names   map[string]string // one copy of the name of each namespace
	groups  map[string]schema.GroupResource
}

func (u *unpacker) entries(in *meter, entries *tar.Reader) error {
	u.names, u.groups = map[string]string{}, map[string]schema.GroupResource{}
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if errors.Is(err, tar.ErrHeader) && u.count == 0 {
				return fmt.Errorf("%w: what is compressed in it is not a tar", ErrNotArchive)
			}
			return in.explain(err, fmt.Sprintf("after entry %d", u.count))
		}
		u.count++
		if err := u.entry(in, header, entries); err != nil {
			return err
		}
	}
}

func (u *unpacker) entry(in *meter, header *tar.Header, body io.Reader) error {
	where := location{u.count, header.Name, in.read}
	if u.count > u.limits.Items {
		return fmt.Errorf("%w: %s: more than %d entries", ErrLimit, where, u.limits.Items)
	}
	if len(header.Name) > u.limits.PathBytes {
		return fmt.Errorf("%w: %s: path of %d bytes, at most %d are allowed", ErrLimit, where, len(header.Name), u.limits.PathBytes)
	}
	path, err := cleanPath(header.Name)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnsafePath, where, err)
	}
	if header.Typeflag == tar.TypeDir {
		u.archive.hasResources = u.archive.hasResources || path == resourcesDir
		return nil
	}
	if header.Typeflag != tar.TypeReg {
		return fmt.Errorf("%w: %s: entry of type %q, want regular files only", ErrUnsafePath, where, header.Typeflag)
	}
	if header.Size > u.limits.ItemBytes {
		return fmt.Errorf("%w: %s: %d bytes, at most %d are allowed for one object", ErrLimit, where, header.Size, u.limits.ItemBytes)
	}
	if path == versionPath {
		return u.version(in, body, where)
	}
	u.archive.hasResources = u.archive.hasResources || strings.HasPrefix(path, resourcesDir+"/")
	gr, namespace, name, ok := parsePath(path)
	version := ""
	if !ok && u.archive.versions != nil {
		gr, version, namespace, name, ok = parseVersionedPath(path)
	}
	if !ok {
		return nil
	}
	gr, namespace = u.intern(gr, namespace)
	if preferred, is := strings.CutSuffix(version, preferredSuffix); is {
		u.versionsOf(gr).preferred = preferred // the same object has a path without a version
		return nil
	}
	if err := u.checkSpace(where); err != nil {
		return err
	}
	n, err := io.Copy(u.out, body)
	if err != nil {
		return in.explain(err, "in "+where.String())
	}
	found := record{namespace: namespace, name: name, offset: u.written, size: n}
	u.written += n
	if version == "" {
		u.archive.index[gr] = append(u.archive.index[gr], found)
		return nil
	}
	others := u.versionsOf(gr).others
	others[version] = append(others[version], found)
	return nil
}

// checkSpace returns an error if the disk of the spool file is nearly full. It asks the system now and then.
func (u *unpacker) checkSpace(where location) error {
	const every = 64 << 20
	if u.written < u.checked {
		return nil
	}
	u.checked = u.written + every
	free, known := freeSpace(u.archive.spool)
	if known && free < u.limits.FreeBytes+every {
		return fmt.Errorf("%w: %s: %d bytes are free in %s after %d bytes were unpacked, and %d are to stay free; use a larger --scratch-dir",
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

// location identifies an entry in messages.
type location struct {
	number int
	name   string
	offset int64
}

func (l location) String() string {
	return fmt.Sprintf("entry %d, %s, near byte %d of the tar", l.number, quotedPath(l.name), l.offset)
}

// version reads metadata/version.
func (u *unpacker) version(in *meter, body io.Reader, where location) error {
	const most = 64
	text, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return in.explain(err, "in "+where.String())
	}
	version := strings.TrimSpace(string(text))
	if major, _, _ := strings.Cut(version, "."); major != "1" {
		return fmt.Errorf("%w: %s: format version %q, want 1.x.y", ErrNotArchive, where, version)
	}
	u.archive.formatVersion = version
	return nil
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
