package archive

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// Changes are objects that replace objects of an archive, or are added to it. Their content is in a temporary file,
// with an index in memory. The methods are safe for concurrent use, except with Close.
type Changes struct {
	mu      sync.Mutex
	spool   *spool.File
	objects map[object]*change
	order   []*change
}

// object identifies an object of any version.
type object struct {
	gr              schema.GroupResource
	namespace, name string
}

// change is one object in one or more versions.
type change struct {
	object
	versions []changedVersion // the preferred one first, if there is one
}

// changedVersion is an object in one version.
type changedVersion struct {
	version      string
	preferred    bool
	offset, size int64
}

// NewChanges returns changes that are kept in a file in dir; "" is the system's directory of temporary files.
func NewChanges(dir string) (*Changes, error) {
	file, err := spool.New(dir, "changes of an archive")
	if err != nil {
		return nil, err
	}
	return &Changes{spool: file, objects: map[object]*change{}}, nil
}

// Item adds one object, as Writer.Item does. The last one counts if an object is added again in the same version.
func (c *Changes) Item(
	gr schema.GroupResource, version string, preferred bool, namespace, name string, raw []byte,
) error {
	if err := checkItem(gr, version, namespace, name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	added := changedVersion{version: version, preferred: preferred, offset: c.spool.Size(), size: int64(len(raw))}
	if _, err := c.spool.Write(raw); err != nil {
		return err
	}
	id := object{gr, namespace, name}
	changed := c.objects[id]
	if changed == nil {
		changed = &change{object: id}
		c.objects[id] = changed
		c.order = append(c.order, changed)
	}
	for i, v := range changed.versions {
		if v.version == version {
			changed.versions[i] = added
			return nil
		}
	}
	changed.versions = append(changed.versions, added)
	return nil
}

// Len returns the number of objects.
func (c *Changes) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order)
}

// Close removes the temporary file.
func (c *Changes) Close() error { return c.spool.Close() }

// read returns the content of an object.
func (c *Changes) read(v changedVersion) ([]byte, error) {
	raw := make([]byte, v.size)
	if _, err := c.spool.ReadAt(raw, v.offset); err != nil {
		return nil, err
	}
	return raw, nil
}

// find returns the change of the object at a path and the folder of its version; nil if there is none.
func (c *Changes) find(path string) (changed *change, versionDir string) {
	gr, namespace, name, ok := parsePath(path)
	if !ok {
		gr, versionDir, namespace, name, ok = parseVersionedPath(path)
	}
	if !ok {
		return nil, ""
	}
	return c.objects[object{gr, namespace, name}], versionDir
}

// at returns the version of the object that belongs into a folder.
func (c *change) at(versionDir string) (changedVersion, bool) {
	for _, v := range c.versions {
		if v.preferred && (versionDir == "" || versionDir == v.version+preferredSuffix) ||
			!v.preferred && versionDir == v.version {
			return v, true
		}
	}
	return changedVersion{}, false
}

// outdated reports whether a folder has the version that the API server preferred when the archive was written, but no
// longer prefers.
func (c *change) outdated(versionDir string) bool {
	_, replaced := c.at("")
	_, same := c.at(versionDir)
	return replaced && !same && strings.HasSuffix(versionDir, preferredSuffix)
}
