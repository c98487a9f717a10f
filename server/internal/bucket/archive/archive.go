package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/nametable"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// Errors of an archive. An error of Open wraps one of these, or an error of the source or the disk.
var (
	ErrNotArchive = errors.New("not a backup archive")
	ErrTruncated  = errors.New("archive is truncated")
	ErrCorrupt    = errors.New("archive is corrupt")
	ErrUnsafePath = errors.New("unsafe path in archive")
	ErrDuplicate  = errors.New("duplicate entry in archive")
	ErrLimit      = errors.New("archive is over a limit")
)

// IsDamage reports whether an error is about the content of an archive, so that reading it again is of no use.
func IsDamage(err error) bool {
	return slices.ContainsFunc([]error{ErrNotArchive, ErrTruncated, ErrCorrupt, ErrUnsafePath, ErrDuplicate, ErrLimit},
		func(damage error) bool {
			return errors.Is(err, damage)
		})
}

// Options are how an archive is opened.
type Options struct {
	Limits Limits
	// AllVersions keeps the objects in other versions too; see Versions and Use.
	AllVersions bool
	// Unpacks reports whether an object of a type in a namespace will be read; nil unpacks all. The others are in the
	// index only.
	Unpacks func(gr schema.GroupResource, namespace string) bool
}

// notUnpacked is the offset of an object that is in the index only.
const notUnpacked = -1

// Entry is one object in an archive.
type Entry struct {
	GroupResource schema.GroupResource
	Namespace     string // "" for a cluster-scoped object
	Name          string
}

// Path returns the path of the object in the archive.
func (e Entry) Path() string { return ItemPath(e.GroupResource, "", e.Namespace, e.Name) }

// Archive is an archive unpacked into one spool file, with an index in memory. It is safe for concurrent use.
type Archive struct {
	spool         *spool.File
	formatVersion string
	hasResources  bool
	length        int
	mu            sync.RWMutex
	names         nametable.Table
	index         map[schema.GroupResource][]record // the slices do not change
	resources     []schema.GroupResource
	versions      map[schema.GroupResource]*versions // nil unless requested
}

// versions are the versions of the objects of one type.
type versions struct {
	preferred string              // whose objects are in the index
	others    map[string][]record // by version
}

// record is an Entry in the index, which holds one for each object of the backup, so it is small.
type record struct {
	offset          int64
	namespace, name nametable.Name
	size            uint32
}

func (a *Archive) compare(x, y record) int {
	return a.compareTo(x, a.names.Of(y.namespace), a.names.Of(y.name))
}

func (a *Archive) compareTo(r record, namespace, name string) int {
	return cmp.Or(strings.Compare(a.names.Of(r.namespace), namespace), strings.Compare(a.names.Of(r.name), name))
}

// Open unpacks the tar.gz that r streams. It concatenates the objects in one file in dir and keeps only an index in
// memory.
// Open reads each object from its path without a version; it skips the copies below versions, unless they are wanted,
// and all other entries.
//
// Open reads r to its end and verifies the checksum, so that a truncated or damaged archive is an error here instead of
// half a restore. An error names the entry and its offset in the tar, and wraps one of the errors above. Open does not
// validate the content of objects.
func Open(ctx context.Context, r io.Reader, dir string, options Options) (*Archive, error) {
	file, err := spool.New(dir, "the objects of an archive")
	if err != nil {
		return nil, err
	}
	a := &Archive{spool: file, index: map[schema.GroupResource][]record{}}
	if options.AllVersions {
		a.versions = map[schema.GroupResource]*versions{}
	}
	if err := a.unpack(ctx, r, options); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// FormatVersion returns the content of metadata/version, e.g. "1.1.0", or an empty string if that file is missing.
func (a *Archive) FormatVersion() string { return a.formatVersion }

// HasResources reports whether the archive has the folder "resources". The archive of an empty backup has none.
func (a *Archive) HasResources() bool { return a.hasResources }

// Len returns the number of objects.
func (a *Archive) Len() int { return a.length }

// Resources returns the types of the objects in the archive, sorted by name.
func (a *Archive) Resources() []schema.GroupResource { return a.resources }

// Count returns the number of objects of a type.
func (a *Archive) Count(gr schema.GroupResource) int { return len(a.records(gr)) }

// Items returns the objects of a type, sorted by namespace and name.
func (a *Archive) Items(gr schema.GroupResource) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, r := range a.records(gr) {
			if !yield(a.entry(gr, r)) {
				return
			}
		}
	}
}

// position returns the position of an object among the records of its type.
func (a *Archive) position(records []record, namespace, name string) (i int, found bool) {
	return slices.BinarySearchFunc(records, struct{}{}, func(r record, _ struct{}) int {
		return a.compareTo(r, namespace, name)
	})
}

// Namespaces returns the namespaces of all objects in the archive, sorted. A namespace is not included if the archive
// has only its Namespace object.
func (a *Archive) Namespaces() []string {
	found := map[nametable.Name]struct{}{}
	for _, gr := range a.resources {
		for _, r := range a.records(gr) {
			found[r.namespace] = struct{}{}
		}
	}
	var namespaces []string
	for t := range found {
		if namespace := a.names.Of(t); namespace != "" {
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}

// Find returns the entry of one object.
func (a *Archive) Find(gr schema.GroupResource, namespace, name string) (Entry, bool) {
	records := a.records(gr)
	i, found := a.position(records, namespace, name)
	if !found {
		return Entry{}, false
	}
	return a.entry(gr, records[i]), true
}

// Versions returns the version in which Items returns the objects of a type at first, which is the one that their API
// server preferred, and the other versions that the archive has, sorted. It returns none unless the archive was opened
// with Options.AllVersions.
func (a *Archive) Versions(gr schema.GroupResource) (preferred string, others []string) {
	v := a.versions[gr]
	if v == nil {
		return "", nil
	}
	return v.preferred, slices.Sorted(maps.Keys(v.others))
}

// Use makes Items, Find and Read return the objects of a type in another version. Objects that the archive does not
// have in that version stay as they are.
func (a *Archive) Use(gr schema.GroupResource, version string) {
	v := a.versions[gr]
	if v == nil {
		return
	}
	records := slices.Clone(a.records(gr))
	for _, other := range v.others[version] {
		if i, found := slices.BinarySearchFunc(records, other, a.compare); found {
			records[i] = other
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index[gr] = records
}

func (a *Archive) records(gr schema.GroupResource) []record {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.index[gr]
}

func (a *Archive) entry(gr schema.GroupResource, r record) Entry {
	return Entry{GroupResource: gr, Namespace: a.names.Of(r.namespace), Name: a.names.Of(r.name)}
}

// Read returns the archived JSON of one object.
func (a *Archive) Read(e Entry) ([]byte, error) {
	records := a.records(e.GroupResource)
	i, found := a.position(records, e.Namespace, e.Name)
	if !found {
		return nil, fmt.Errorf("read %s: it is not in the archive", e.Path())
	}
	r := records[i]
	if r.offset == notUnpacked {
		return nil, fmt.Errorf("read %s: it was not unpacked, because nothing of its namespace is restored", e.Path())
	}
	data := make([]byte, r.size)
	if _, err := a.spool.ReadAt(data, r.offset); err != nil {
		return nil, fmt.Errorf("read %s: %w", e.Path(), err)
	}
	return data, nil
}

// Close removes the spool file. The archive cannot be used afterwards.
func (a *Archive) Close() error { return a.spool.Close() }
