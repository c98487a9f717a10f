package restic

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// Name is the name of the data mover.
const Name = "cleat.dev/restic"

// Register returns the plugin's registration.
func Register() framework.Registration {
	return dmv1.Register(Name, newMover, framework.WithConfig(Defaults()),
		framework.WithRoles(framework.RoleMaintainsAlone)) // prune needs an exclusive lock
}

// mover implements the author interface DataMover.
type mover struct {
	config   Config
	cache    string
	lockWait time.Duration
	every    time.Duration // between two reports of a command that prints nothing

	mu      sync.Mutex
	program *program.Program
	creates map[string]*sync.Mutex // by place: one call at a time creates a repository
}

var _ dmv1.DataMover = (*mover)(nil)

func newMover(_ context.Context, setup *framework.Setup) (dmv1.DataMover, error) {
	config := framework.Config[Config](setup)
	m := &mover{config: config, cache: config.CacheDirectory, every: 5 * time.Second, creates: map[string]*sync.Mutex{}}
	var err error
	if m.lockWait, err = time.ParseDuration(config.LockWait); err != nil {
		return nil, err
	}
	if m.cache == "" {
		state, err := setup.StateDir()
		if err != nil {
			return nil, err
		}
		m.cache = filepath.Join(state, "cache")
	}
	return m, os.MkdirAll(m.cache, 0o700)
}

// restic returns the program. Each call looks for the program until one has found it.
func (m *mover) restic(ctx context.Context) (*program.Program, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.program != nil {
		return m.program, nil
	}
	found, err := program.Find(ctx, m.config.Program)
	if err == nil {
		m.program = found
	}
	return found, err
}

// creating returns the lock for the creation of the repository at a place.
func (m *mover) creating(place string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.creates[place] == nil {
		m.creates[place] = &sync.Mutex{}
	}
	return m.creates[place]
}
