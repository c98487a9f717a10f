package repositories

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
)

// Here runs maintenance in the process of the server, which is for servers without a pod of their own. A job ends with
// the process; the next server finds the claim, and begins it again.
type Here struct {
	Jobs     *Jobs           // finds those of others
	Life     context.Context //nolint:containedctx // of the process: jobs outlast the calls that begin them
	Timeout  time.Duration
	Maintain func(ctx context.Context, of *velerov1.BackupRepository) (string, error)
	// Ended is called when a job of a repository has ended.
	Ended func(of *velerov1.BackupRepository)
	Now   func() time.Time

	mu   sync.Mutex
	jobs map[string]*job
}

// job is a job of this process.
type job struct {
	Attempt

	of     string // the repository
	stop   context.CancelFunc
	result string
}

// Start implements Runner.
func (h *Here) Start(_ context.Context, of *velerov1.BackupRepository, name string, _ maintenance.Job) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jobs[name] != nil {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(h.Life, h.Timeout, errors.New("it has taken longer than "+h.Timeout.String()))
	j := &job{Attempt: Attempt{Name: name, Began: h.Now()}, of: of.Name, stop: stop}
	if h.jobs == nil {
		h.jobs = map[string]*job{}
	}
	h.jobs[name] = j
	of = of.DeepCopy()
	go func() {
		defer stop()
		result, err := h.Maintain(ctx, of)
		if err != nil && h.Life.Err() == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if h.Life.Err() != nil {
			return // the next server begins it again
		}
		h.mu.Lock()
		j.Ended, j.result = h.Now(), result
		if err != nil {
			j.Failed, j.result = true, err.Error()
		}
		h.mu.Unlock()
		h.Ended(of)
	}()
	return nil
}

// Attempts implements Runner.
func (h *Here) Attempts(ctx context.Context, of *velerov1.BackupRepository) ([]Attempt, error) {
	all, err := h.Jobs.Attempts(ctx, of)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range h.jobs {
		if j.of == of.Name {
			all = append(all, j.Attempt)
		}
	}
	slices.SortFunc(all, func(a, b Attempt) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Name, b.Name)) })
	return all, err
}

// Result implements Runner.
func (h *Here) Result(ctx context.Context, ended Attempt) (string, error) {
	h.mu.Lock()
	j := h.jobs[ended.Name]
	h.mu.Unlock()
	if j == nil {
		return h.Jobs.Result(ctx, ended)
	}
	return j.result, nil
}

// Waits implements Runner.
func (h *Here) Waits(context.Context, Attempt) (string, error) { return "", nil }

// Remove implements Runner.
func (h *Here) Remove(ctx context.Context, of *velerov1.BackupRepository, a Attempt) error {
	h.mu.Lock()
	j := h.jobs[a.Name]
	delete(h.jobs, a.Name)
	h.mu.Unlock()
	if j == nil {
		return h.Jobs.Remove(ctx, of, a)
	}
	j.stop()
	return nil
}
