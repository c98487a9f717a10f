package operations

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/tail"
)

// Run is the work on one operation in this process. Its methods are safe for concurrent use.
type Run struct {
	id      string
	attempt int64
	log     hclog.Logger
	cancel  context.CancelCauseFunc
	ended   func() error // the error of the work's context

	mu       sync.Mutex
	progress framework.OperationProgress
	output   string // the end of what was written to Output
	unsaved  error  // why the result of the work is not stored yet
	// set when the store has the progress, because the work is stored as completed or another process has it
	over bool
}

// ID returns the id of the operation.
func (r *Run) ID() string { return r.id }

// Attempt returns 1 in the process that started the operation, and one more in each process that resumed it.
func (r *Run) Attempt() int { return int(r.attempt) }

// Log returns framework.Log of the call that started or resumed the operation in this process, with the operation's id
// in each line. The lines are written to the log of the backup or restore that made that call.
func (r *Run) Log() hclog.Logger { return r.log }

// Report sets the progress: completed of total units, and the current step. total is 0 as long as it is unknown. Report
// only takes a lock, so it may be called as often as the progress changes.
func (r *Run) Report(completed, total int64, units, description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.NCompleted, r.progress.NTotal = max(completed, 0), max(total, 0)
	r.progress.Units, r.progress.Description = validText(units), validText(description)
	r.progress.Updated = time.Now().UTC()
}

// Describe sets the current step, and leaves the rest of the progress unchanged.
func (r *Run) Describe(description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Description = validText(description)
	r.progress.Updated = time.Now().UTC()
}

// Output returns a writer for messages of the work to users, such as the output of a program. The server shows its last
// lines if the operation fails; see framework.OperationProgress.LastLines. Nothing is written elsewhere, and Write
// never fails.
func (r *Run) Output() io.Writer { return output{r} }

type output struct{ run *Run }

// Write implements io.Writer.
func (o output) Write(text []byte) (int, error) {
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.output + string(text[max(0, len(text)-2*tail.MaxBytes):])
	r.output = kept[max(0, len(kept)-2*tail.MaxBytes):] // more than is reported, so that it shows where it was cut
	return len(text), nil
}

// snapshot returns the progress. The caller holds mu.
func (r *Run) snapshot() framework.OperationProgress {
	if r.output != "" {
		r.progress.LastLines = tail.Lines(r.output)
	}
	return r.progress
}

// current returns the progress, and false if the caller has to read it from the store.
func (r *Run) current() (progress framework.OperationProgress, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot(), !r.over, r.unsaved
}

// touch returns the progress, updated now.
func (r *Run) touch() framework.OperationProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Updated = time.Now().UTC()
	return r.snapshot()
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

// validText returns text as valid UTF-8, which gRPC requires.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
