package backupqueue

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// A waiting Backup that the API server refuses to write is passed over until it changes or a pause is over. A ready or
// running one has no slot until the controller of backups tries again (slots.go).
const (
	firstRefusalPause = time.Second
	lastRefusalPause  = 2 * time.Minute
)

// reasonUnwritable is the reason of Backups that cannot be written. It is in events, metrics and reports, but not in
// Backups.
const reasonUnwritable = "Unwritable"

// refusals are the Backups that the API server refuses to write. The reason cannot be written to them, so it is in an
// event, a metric and the server's report. They are lost with the process; the next one tries again.
type refusals struct {
	mu sync.Mutex
	of map[types.UID]*refusal
}

type refusal struct {
	serverreport.Unwritable
	phase   velerov1.BackupPhase // in which it could not be written; the refusal is over when the phase changes
	version string               // the resource version that could not be replaced
	pause   time.Duration
	next    time.Time // the time of the next attempt
	asked   bool      // set if the current decision, or the controller of backups, tries again
}

// refused records that a Backup could not be written, and reports it if the reason is new. It returns the time until
// the next attempt.
func (q *Controller) refused(b *velerov1.Backup, err error) time.Duration {
	text := oneLine(err.Error())
	again, isNew := q.refusals.add(b, text, q.Now())
	if !isNew {
		return again
	}
	follows := "passed over in the queue"
	if !queue.Waits(b) {
		follows = "holds no slot until it can be written"
	}
	q.Events.Eventf(b, nil, corev1.EventTypeWarning, reasonUnwritable, "Queue", "%s", follows+": "+text)
	q.Log.Warn("backup cannot be written", "backup", b.Namespace+"/"+b.Name, "phase", run.BackupPhase(b), "follows",
		follows, "error", err)
	return again
}

// add records a refusal. It returns the time until the next attempt, and whether the reason is new.
func (r *refusals) add(b *velerov1.Backup, text string, now time.Time) (again time.Duration, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of[b.UID]
	if known == nil {
		known = &refusal{Unwritable: serverreport.Unwritable{Name: b.Name, Since: now.UTC().Truncate(time.Second)}}
		if r.of == nil {
			r.of = map[types.UID]*refusal{}
		}
		r.of[b.UID] = known
	}
	isNew = known.Message != text
	known.Message, known.phase, known.version = text, run.BackupPhase(b), b.ResourceVersion
	known.pause = min(max(firstRefusalPause, 2*known.pause), lastRefusalPause)
	known.next, known.asked = now.Add(known.pause), false
	return known.pause, isNew
}

// ask records that a ready or running Backup is about to be written again, so that its slot counts.
func (r *refusals) ask(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.of[uid]; known != nil {
		known.asked = true
	}
}

// forget removes a Backup that was written.
func (r *refusals) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, uid)
}

// take removes the Backups from a line that are not to be written now, or whose slots are free. It returns the time
// until the next attempt, 0 for never, and the number of removed Backups.
func (r *refusals) take(line *queue.Line, now time.Time) (again time.Duration, taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) == 0 {
		return 0, 0
	}
	current := make(map[types.UID]*refusal, len(r.of))
	isTaken := func(b *velerov1.Backup) bool {
		known := r.of[b.UID]
		if known == nil || known.phase != run.BackupPhase(b) {
			return false
		}
		current[b.UID] = known
		if queue.Waits(b) {
			left := known.next.Sub(now)
			if known.asked = left <= 0 || known.version != b.ResourceVersion; !known.asked {
				again = soonest(again, left)
			}
		}
		if !known.asked {
			taken++
		}
		return !known.asked
	}
	for _, backups := range []*[]*velerov1.Backup{&line.Queued, &line.Ready, &line.Running} {
		*backups = slices.DeleteFunc(slices.Clone(*backups), isTaken)
	}
	r.of = current // the others were written or deleted
	return again, taken
}

// carriedOut removes the waiting Backups that were tried again and not refused.
func (r *refusals) carriedOut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(_ types.UID, known *refusal) bool {
		waits := known.phase == velerov1.BackupPhaseNew || known.phase == velerov1.BackupPhaseQueued
		return known.asked && waits
	})
}

// Unwritable returns the Backups that cannot be written, sorted by name.
func (q *Controller) Unwritable() []serverreport.Unwritable {
	q.refusals.mu.Lock()
	defer q.refusals.mu.Unlock()
	all := make([]serverreport.Unwritable, 0, len(q.refusals.of))
	for _, known := range q.refusals.of {
		all = append(all, known.Unwritable)
	}
	slices.SortFunc(all, func(a, b serverreport.Unwritable) int { return strings.Compare(a.Name, b.Name) })
	return all
}
