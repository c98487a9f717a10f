package operations

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// Run is the work on one operation in this process. Its methods may be called concurrently.
type Run struct {
	id      string
	attempt int64
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	progress framework.OperationProgress
	unsaved  error // why its end, which has come, is not kept yet
	over     bool  // it is not ours any more: the store knows better
}

// ID is the operation's id.
func (r *Run) ID() string { return r.id }

// Attempt is 1 for the process that began the operation, and counts on with every process that resumes it.
func (r *Run) Attempt() int { return int(r.attempt) }

// Report tells how far the work is: completed of total units (0 when the total is not known yet), and in words what
// happens right now. It costs nothing, so it may be called as often as something changes.
func (r *Run) Report(completed, total int64, units, description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.NCompleted, r.progress.NTotal = max(completed, 0), max(total, 0)
	r.progress.Units, r.progress.Description = wireText(units), wireText(description)
	r.progress.Updated = time.Now().UTC()
}

// current is what Progress answers, false when the store has to be asked.
func (r *Run) current() (progress framework.OperationProgress, mine bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress, !r.over, r.unsaved
}

// now is how far the work is, and that it is so now.
func (r *Run) now() framework.OperationProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Updated = time.Now().UTC()
	return r.progress
}

func (r *Run) setUnsaved(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = err
}

func (r *Run) setOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// wireText is text that can be sent.
func wireText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
