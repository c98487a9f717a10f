package pluginhost

import (
	"sync"

	"github.com/cleat-dev/cleat/versioning"
)

// Index finds plugins by name for frequent callers: it caches the results until the plugins change. It is safe for
// concurrent use.
type Index[H any] struct {
	plugins Plugins
	kinds   []versioning.Kind[H]

	mu      sync.Mutex
	catalog *catalog
	found   map[string]found[H] // in that catalog
}

type found[H any] struct {
	hub   H
	entry Entry
	err   error
}

// NewIndex returns an index of kinds that have the same hub. A name that is used for several of them means the first.
func NewIndex[H any](plugins Plugins, kinds ...versioning.Kind[H]) *Index[H] {
	return &Index[H]{plugins: plugins, kinds: kinds}
}

// Named returns the current plugin with the given name, as the function Named does. The error is that for the last
// kind.
func (x *Index[H]) Named(name string) (H, error) {
	f := x.find(name)
	return f.hub, f.err
}

// Entry returns the entry of the plugin that Named returns, without its processes.
func (x *Index[H]) Entry(name string) (Entry, error) {
	f := x.find(name)
	return f.entry, f.err
}

func (x *Index[H]) find(name string) found[H] {
	current := x.plugins.catalog()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catalog != current {
		x.catalog, x.found = current, map[string]found[H]{}
	}
	if f, known := x.found[name]; known {
		return f
	}
	var f found[H]
	for _, kind := range x.kinds {
		if f.hub, f.err = Named(x.plugins, kind, name); f.err == nil {
			r, err := current.find(kind.Name, kind.Name, name)
			f.entry, f.err = r.Entry, err
			break
		}
	}
	x.found[name] = f
	return f
}
