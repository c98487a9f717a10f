package kopia

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// Name is the name of the data mover.
const Name = "cleat.dev/kopia"

// Register returns the plugin's registration.
func Register() framework.Registration {
	return dmv1.Register(Name, newMover, framework.WithConfig(Defaults()))
}

// mover implements the author interface DataMover.
type mover struct {
	config Config
	cache  string
	budget *volume.Budget
	kept   kept

	mu    sync.Mutex
	alone map[string]*sync.Mutex // by repository: one call at a time creates or maintains it
}

var (
	_ dmv1.DataMover = (*mover)(nil)
	_ io.Closer      = (*mover)(nil)
)

// environmentLimit is the limit of memory in GOMEMLIMIT, or a huge one.
var environmentLimit = debug.SetMemoryLimit(-1)

func newMover(_ context.Context, setup *framework.Setup) (dmv1.DataMover, error) {
	m := &mover{config: framework.Config[Config](setup), alone: map[string]*sync.Mutex{}}
	m.cache = m.config.CacheDirectory
	if m.cache == "" {
		state, err := setup.StateDir()
		if err != nil {
			return nil, err
		}
		m.cache = filepath.Join(state, "cache")
	}
	limit := bytesOf(m.config.MemoryLimit)
	if limit == 0 {
		limit = defaultLimit()
	}
	debug.SetMemoryLimit(min(limit/8*7, environmentLimit)) // the runtime goes beyond it for moments
	m.budget = volume.NewBudget(min(limit, environmentLimit))
	return m, os.MkdirAll(m.cache, 0o700)
}

// defaultLimit returns the memory with which as many large files are moved at once as there are cores, and some for
// garbage.
func defaultLimit() int64 {
	return 2*volume.MemoryOfKopia + int64(runtime.NumCPU())*volume.MemoryOfFile
}

// Close closes the repositories that are kept open. It is called when the mover has no calls.
func (m *mover) Close() error { return m.kept.close() }

// one returns the lock of calls that must not be made twice at once for a repository.
func (m *mover) one(repository string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alone[repository] == nil {
		m.alone[repository] = &sync.Mutex{}
	}
	return m.alone[repository]
}
