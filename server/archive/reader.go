package archive

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is wrong with an archive. Errors of Open wrap one of these, or what the source or the disk said.
var (
	ErrNotArchive = errors.New("not a backup archive")
	ErrTruncated  = errors.New("archive is truncated")
	ErrCorrupt    = errors.New("archive is corrupt")
	ErrUnsafePath = errors.New("unsafe path in archive")
	ErrDuplicate  = errors.New("duplicate entry in archive")
	ErrLimit      = errors.New("archive is over a limit")
)

// Limits bound what Open takes from an archive, which may come from anywhere. Zero fields get the
// values of DefaultLimits.
type Limits struct {
	// TotalBytes of the unpacked tar, and so of the spool file.
	TotalBytes int64
	// ItemBytes of one object.
	ItemBytes int64
	// Items is the number of tar entries of any kind.
	Items int
	// PathBytes of one entry's path.
	PathBytes int
	// Ratio is how many times larger than its compressed form the unpacked archive may be. It is only
	// looked at beyond RatioFloor unpacked bytes: small archives of repetitive objects compress very well.
	Ratio      int64
	RatioFloor int64
}

// DefaultLimits are far above what a cluster can hold: an API server refuses objects above 3 MiB.
func DefaultLimits() Limits {
	return Limits{
		TotalBytes: 64 << 30,
		ItemBytes:  32 << 20,
		Items:      10_000_000,
		PathBytes:  1024,
		Ratio:      200,
		RatioFloor: 256 << 20,
	}
}

func (l Limits) orDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		TotalBytes: cmp.Or(l.TotalBytes, d.TotalBytes),
		ItemBytes:  cmp.Or(l.ItemBytes, d.ItemBytes),
		Items:      cmp.Or(l.Items, d.Items),
		PathBytes:  cmp.Or(l.PathBytes, d.PathBytes),
		Ratio:      cmp.Or(l.Ratio, d.Ratio),
		RatioFloor: cmp.Or(l.RatioFloor, d.RatioFloor),
	}
}

// Entry is one object in an archive.
type Entry struct {
	GroupResource schema.GroupResource
	Namespace     string // "" for a cluster-scoped object
	Name          string

	offset, size int64
}

// Path is where the object stands in the archive.
func (e Entry) Path() string { return ItemPath(e.GroupResource, "", e.Namespace, e.Name) }

// Archive is an archive unpacked to one spool file, with an index in memory. It is safe for
// concurrent use.
type Archive struct {
	spool         *os.File
	formatVersion string
	hasResources  bool
	length        int
	index         map[schema.GroupResource][]record
	resources     []schema.GroupResource
}

// record is an Entry in the index, which holds one for each object of the backup.
type record struct {
	namespace, name string
	offset, size    int64
}

func compareRecords(a, b record) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// Open unpacks the tar.gz that r streams. The objects' bytes are concatenated in one file in dir, which
// is unlinked at once where the system allows it, so that nothing stays behind however the process
// ends; memory holds an index only. Objects are taken from their path without a version; the copies
// below versions are skipped, as is whatever else stands in the archive.
//
// Open reads r to its end and checks the checksum, so that an archive that was cut short or damaged is
// an error here and never half a restore. An error tells the entry and where it starts in the tar,
// and wraps one of the sentinels above. What an object holds is not looked at.
func Open(ctx context.Context, r io.Reader, dir string, limits Limits) (*Archive, error) {
	spool, err := os.CreateTemp(dir, "cleat-archive-*")
	if err != nil {
		return nil, fmt.Errorf("make a spool file for the archive: %w", err)
	}
	_ = os.Remove(spool.Name()) // fails on systems that keep open files; Close removes it there
	a := &Archive{spool: spool, index: map[schema.GroupResource][]record{}}
	if err := a.unpack(ctx, r, limits.orDefaults()); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// FormatVersion is what metadata/version in the archive says, e.g. "1.1.0"; "" when it is not there.
func (a *Archive) FormatVersion() string { return a.formatVersion }

// HasResources tells an archive of a backup that held nothing from one that was never meant to: whether
// the folder "resources" is there.
func (a *Archive) HasResources() bool { return a.hasResources }

// Len is the number of objects.
func (a *Archive) Len() int { return a.length }

// Resources are the types of which the archive has objects, in the order of their names.
func (a *Archive) Resources() []schema.GroupResource { return a.resources }

// Count is the number of objects of a type.
func (a *Archive) Count(gr schema.GroupResource) int { return len(a.index[gr]) }

// Items are the objects of a type in the order of namespace and name.
func (a *Archive) Items(gr schema.GroupResource) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, r := range a.index[gr] {
			if !yield(r.entry(gr)) {
				return
			}
		}
	}
}

// Namespaces are all namespaces of objects in the archive, sorted. A namespace of which the archive has
// only the Namespace object is not one of them.
func (a *Archive) Namespaces() []string {
	found := map[string]struct{}{}
	for _, records := range a.index {
		last := ""
		for _, r := range records {
			if r.namespace != last {
				last = r.namespace
				found[last] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Find looks one object up.
func (a *Archive) Find(gr schema.GroupResource, namespace, name string) (Entry, bool) {
	records := a.index[gr]
	i, found := slices.BinarySearchFunc(records, record{namespace: namespace, name: name}, compareRecords)
	if !found {
		return Entry{}, false
	}
	return records[i].entry(gr), true
}

func (r record) entry(gr schema.GroupResource) Entry {
	return Entry{GroupResource: gr, Namespace: r.namespace, Name: r.name, offset: r.offset, size: r.size}
}

// Read returns the bytes of one object, as they were archived.
func (a *Archive) Read(e Entry) ([]byte, error) {
	data := make([]byte, e.size)
	if _, err := a.spool.ReadAt(data, e.offset); err != nil {
		return nil, fmt.Errorf("read %s from the spool file: %w", e.Path(), err)
	}
	return data, nil
}

// Close gives the spool file back. The archive is of no use afterwards.
func (a *Archive) Close() error {
	err := a.spool.Close()
	if removed := os.Remove(a.spool.Name()); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	if err != nil {
		return fmt.Errorf("close the spool file of the archive: %w", err)
	}
	return nil
}

// unpack fills spool and index from the tar.gz in r.
func (a *Archive) unpack(ctx context.Context, r io.Reader, limits Limits) error {
	source := &packed{ctx: ctx, r: r}
	buffered := bufio.NewReaderSize(source, 256<<10)
	switch head, err := buffered.Peek(2); {
	case source.err != nil:
		return fmt.Errorf("read the archive: %w", source.err)
	case len(head) == 0:
		return fmt.Errorf("%w: it is empty (0 bytes), want a gzip-compressed tar", ErrNotArchive)
	case err != nil || head[0] != 0x1f || head[1] != 0x8b:
		return fmt.Errorf("%w: it does not start like gzip (starts with %#x), want a gzip-compressed tar", ErrNotArchive, head)
	}
	unzipped, err := gzip.NewReader(buffered)
	if err != nil {
		return source.explain(err, "in the gzip header")
	}
	in := &meter{r: unzipped, source: source, limits: limits}
	u := &unpacker{archive: a, limits: limits, out: bufio.NewWriterSize(a.spool, 256<<10)}
	if err := u.entries(in, tar.NewReader(in)); err != nil {
		return err
	}
	// The checksum stands behind the end of the tar.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return in.explain(err, "after the last entry")
	}
	if err := u.out.Flush(); err != nil {
		return fmt.Errorf("write the spool file of the archive: %w", err)
	}
	return u.finish()
}

// unpacker is the state of one walk over the tar.
type unpacker struct {
	archive *Archive
	limits  Limits
	out     *bufio.Writer
	written int64
	count   int               // entries seen
	names   map[string]string // one copy of each namespace
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
	where := place{u.count, header.Name, in.read}
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
	if !ok {
		return nil
	}
	n, err := io.Copy(u.out, body)
	if err != nil {
		return in.explain(err, "in "+where.String())
	}
	gr, namespace = u.intern(gr, namespace)
	u.archive.index[gr] = append(u.archive.index[gr], record{namespace: namespace, name: name, offset: u.written, size: n})
	u.written += n
	return nil
}

// place is where an entry stands, for messages.
type place struct {
	number int
	name   string
	offset int64
}

func (p place) String() string {
	return fmt.Sprintf("entry %d, %s, near byte %d of the tar", p.number, quotedPath(p.name), p.offset)
}

// version reads metadata/version.
func (u *unpacker) version(in *meter, body io.Reader, where place) error {
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

// intern keeps one copy of the strings that many objects share.
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

// finish sorts the index and looks for objects that stand in it twice.
func (u *unpacker) finish() error {
	a := u.archive
	for gr, records := range a.index {
		slices.SortStableFunc(records, compareRecords)
		for i := 1; i < len(records); i++ {
			if compareRecords(records[i-1], records[i]) == 0 {
				return fmt.Errorf("%w: %s stands in the archive twice, want each object once",
					ErrDuplicate, quotedPath(records[i].entry(gr).Path()))
			}
		}
		a.length += len(records)
		a.resources = append(a.resources, gr)
	}
	slices.SortFunc(a.resources, func(x, y schema.GroupResource) int { return strings.Compare(x.String(), y.String()) })
	return nil
}
