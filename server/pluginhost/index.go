package pluginhost

import (
	"sync"

	"github.com/cleat-dev/cleat/versioning"
)

// Index finds plugins by name for callers that ask often: it remembers what it found until the plugins change. It is safe for
// concurrent use.
type Index[H any] struct {
	plugins Plugins
	kinds   []versioning.Kind[H]

	mu      sync.Mutex
	catalog *catalog
	found   map[string]found[H] // in that catalog
}

type found[H any] struct {
	hub H
	err error
}

// NewIndex returns an index of kinds that have the same hub. A name that is used for several of them means the first.
func NewIndex[H any](plugins Plugins, kinds ...versioning.Kind[H]) *Index[H] {
	return &Index[H]{plugins: plugins, kinds: kinds}
}

// Named returns the current plugin with the given name, as the function Named does. The error is that for the last kind.
func (x *Index[H]) Named(name string) (H, error) {
	current := x.plugins.catalog()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catalog != current {
		x.catalog, x.found = current, map[string]found[H]{}
	}
	if f, known := x.found[name]; known {
		return f.hub, f.err
	}
	var f found[H]
	for _, kind := range x.kinds {
		if f.hub, f.err = Named(x.plugins, kind, name); f.err == nil {
			break
		}
	}
	x.found[name] = f
	return f.hub, f.err
}
