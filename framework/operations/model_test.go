package operations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/operations"
)

// TestOperationCompletesOnceDespiteFaults starts and kills processes, calls each of them, makes the store fail at
// times, and checks what a host sees against a model.
func TestOperationCompletesOnceDespiteFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				newModel(t, seed).play(200)
			})
		})
	}
}

type model struct {
	t         *testing.T
	random    *rand.Rand
	store     *resources
	resume    bool
	processes []*process

	mu        sync.Mutex
	working   map[string]*process                    // the live process that works on an operation
	attempts  map[string]int                         // how many processes have worked on it
	started   map[string]bool                        // ids that Start has returned
	cancelled map[string]bool                        // ids for which Cancel has returned nil
	completed map[string]framework.OperationProgress // progress as first seen completed
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), store: newResources(), resume: seed%2 == 0,
		working: map[string]*process{}, attempts: map[string]int{}, started: map[string]bool{},
		cancelled: map[string]bool{}, completed: map[string]framework.OperationProgress{},
	}
	flaky := rand.New(rand.NewPCG(seed, 1))
	m.store.fault = func(string, string) error {
		if flaky.IntN(10) == 0 {
			return errors.New("the store is unavailable")
		}
		return nil
	}
	m.start()
	m.start()
	return m
}

func (m *model) start() {
	var p *process
	var options []operations.Option
	if m.resume {
		options = append(options, operations.WithResume())
	}
	p = newProcess(m.store, func(ctx context.Context, v volume, run *operations.Run) error {
		m.enter(run.ID(), p)
		defer m.leave(run.ID(), p)
		for done := range int64(5) {
			run.Report(done, 5, "steps", v.Name)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second):
			}
		}
		return nil
	}, options...)
	m.processes = append(m.processes, p)
}

// enter records that a process begins to work on an operation, which no other live process may do.
func (m *model) enter(id string, p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.dead.Load() {
		return
	}
	if other := m.working[id]; other != nil && !other.dead.Load() {
		m.t.Errorf("two processes work on %s", id)
	}
	m.working[id] = p
	m.attempts[id]++
	if !m.resume && m.attempts[id] > 1 {
		m.t.Errorf("%s is resumed, although the runner has no WithResume", id)
	}
}

func (m *model) leave(id string, p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.working[id] == p {
		delete(m.working, id)
	}
}

func (m *model) play(steps int) {
	for range steps {
		p := m.processes[m.random.IntN(len(m.processes))]
		key := fmt.Sprint(m.random.IntN(5))
		id := operations.ID("example.io/mover", key)
		switch m.random.IntN(20) {
		case 0:
			p.kill()
			for i, other := range m.processes {
				if other == p {
					m.processes = append(m.processes[:i], m.processes[i+1:]...)
					break
				}
			}
			m.start()
		case 1:
			if err := p.Cancel(m.t.Context(), id); err == nil && m.started[id] {
				m.cancelled[id] = true
			}
		case 2, 3, 4, 5:
			if returned, err := p.Start(m.t.Context(), key, volume{Name: key}); err == nil {
				require.Equal(m.t, id, returned)
				m.started[id] = true
			}
		default:
			m.look(p, id)
		}
		time.Sleep(time.Duration(m.random.IntN(2000)) * time.Millisecond)
	}
	m.settle()
}

// look reads the progress, as a host does. The progress must not change once the operation has completed.
func (m *model) look(p *process, id string) {
	progress, err := p.Progress(m.t.Context(), id)
	if err != nil || !m.started[id] {
		return
	}
	require.LessOrEqual(m.t, progress.NCompleted, int64(5))
	if end, ended := m.completed[id]; ended {
		require.Equal(m.t, end, progress, "%s changed after it completed", id)
	}
	if progress.Completed {
		m.completed[id] = progress
	}
}

// settle lets the store recover, after which every operation must complete.
func (m *model) settle() {
	m.store.setFault(nil)
	for range 60 {
		for id := range m.started {
			m.look(m.processes[m.random.IntN(len(m.processes))], id)
		}
		time.Sleep(4 * time.Second)
	}
	for id := range m.started {
		end, ended := m.completed[id]
		require.True(m.t, ended, "%s never completes", id)
		switch end.Err {
		case "":
		case "the operation was cancelled":
			require.True(m.t, m.cancelled[id] || m.requested(id), "%s was cancelled without a request", id)
		case "the plugin process that worked on the operation has ended":
			require.False(m.t, m.resume)
		default:
			m.t.Errorf("%s ended with %q", id, end.Err)
		}
	}
	for _, p := range m.processes {
		p.Close()
	}
}

// requested reports whether a Cancel that returned an error was stored nevertheless.
func (m *model) requested(id string) bool {
	operation, err := m.store.Get(m.t.Context(), id)
	require.NoError(m.t, err)
	return operation.CancelRequested
}
