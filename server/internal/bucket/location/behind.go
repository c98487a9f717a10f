package location

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// maxSocket is the length that the path of a socket may have on all systems.
const maxSocket = 103

// behinds serve the stores behind others, each at a socket. It is safe for concurrent use.
type behinds struct {
	dir string
	log hclog.Logger

	mu         sync.Mutex
	made       int
	byLocation map[string][]*behind
}

// behind is a served store.
type behind struct {
	of      front
	current *currentStore
	server  *objectstore.BehindServer
}

// serve returns the address of a store behind that of a location. Those of former configurations are served until stop,
// since runs may use them.
func (b *behinds) serve(location string, of front, store objectstore.Store) (address string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, known := range b.byLocation[location] {
		if known.of.sameBehind(of) {
			known.current.set(store) // its plugin may have been replaced
			return known.server.Address(), nil
		}
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", err
	}
	b.made++
	socket := filepath.Join(b.dir, fmt.Sprintf("%d.sock", b.made))
	if len(socket) > maxSocket {
		return "", fmt.Errorf("the path %s is too long for a socket; give the server a shorter --scratch-dir", socket)
	}
	made := &behind{of: of, current: &currentStore{store: store}}
	made.server, err = objectstore.ServeBehind(socket, made.current.get, pluginhost.ForRun, b.log)
	if err != nil {
		return "", err
	}
	if b.byLocation == nil {
		b.byLocation = map[string][]*behind{}
	}
	b.byLocation[location] = append(b.byLocation[location], made)
	return made.server.Address(), nil
}

// stop stops serving the stores of a location, and reports whether there are any.
func (b *behinds) stop(location string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, found := b.byLocation[location]
	for _, known := range all {
		known.server.Stop()
	}
	delete(b.byLocation, location)
	return found
}

func (b *behinds) stopAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.byLocation {
		for _, known := range all {
			known.server.Stop()
		}
	}
	b.byLocation = nil
}

// currentStore is the store of a configuration as it was opened last.
type currentStore struct {
	mu    sync.Mutex
	store objectstore.Store
}

func (c *currentStore) set(store objectstore.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store = store
}

func (c *currentStore) get() objectstore.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store
}
