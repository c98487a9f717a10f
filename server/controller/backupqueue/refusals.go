package backupqueue

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/queue"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// A Backup that the API server refuses to write is passed over until it has changed or a pause is over.
const (
	firstRefusalPause = time.Second
	lastRefusalPause  = 2 * time.Minute
)

// reasonUnwritable is the reason of Backups that cannot be written. No Backup has it, only events, metrics and reports.
const reasonUnwritable = "Unwritable"

// refusals are the Backups that the API server refuses to write. The reason cannot be written to them, so it is in an event, a
// metric and the server's report. They are lost with the process, which asks again.
type refusals struct {
	mu sync.Mutex
	of map[types.UID]*refusal
}

type refusal struct {
	serverreport.Unwritable
	version string // the resource version that could not be replaced
	pause   time.Duration
	next    time.Time // when to ask again
	asked   bool      // by the current decision
}

// isRefusal reports whether the API server refuses to write this very object, and not all requests at the moment: an admission
// policy, a webhook or the validation of the definition does.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	case http.StatusInternalServerError:
		return strings.Contains(status.Status().Message, "webhook") // it does not answer, or not as it must
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// refused records that a Backup could not be written, and reports it if the reason is new.
func (q *Controller) refused(b *velerov1.Backup, err error) {
	now := q.Now()
	text := oneLine(err.Error())
	if !q.refusals.add(b, text, now) {
		return
	}
	q.Events.Eventf(b, nil, corev1.EventTypeWarning, reasonUnwritable, "Queue", "%s", "passed over in the queue: "+text)
	q.Log.Warn("backup cannot be written and is passed over", "backup", b.Namespace+"/"+b.Name, "error", err)
}

// add records a refusal. It reports whether the reason is new.
func (r *refusals) add(b *velerov1.Backup, text string, now time.Time) (isNew bool) {
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
	known.Message, known.version = text, b.ResourceVersion
	known.pause = min(max(firstRefusalPause, 2*known.pause), lastRefusalPause)
	known.next, known.asked = now.Add(known.pause), false
	return isNew
}

// forget forgets a Backup that was written.
func (r *refusals) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, uid)
}

// take takes the Backups out of a line that are not to be written now. It returns when to ask again, 0 for never, and how many
// it has taken out.
func (r *refusals) take(line *queue.Line, now time.Time) (again time.Duration, taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) == 0 {
		return 0, 0
	}
	waiting := make(map[types.UID]*refusal, len(r.of))
	line.Queued = slices.DeleteFunc(slices.Clone(line.Queued), func(b *velerov1.Backup) bool {
		known := r.of[b.UID]
		if known == nil {
			return false
		}
		waiting[b.UID] = known
		left := known.next.Sub(now)
		if known.asked = left <= 0 || known.version != b.ResourceVersion; known.asked {
			return false
		}
		again, taken = soonest(again, left), taken+1
		return true
	})
	r.of = waiting // the others have left the queue
	return again, taken
}

// carriedOut forgets the Backups that were asked about again and not refused.
func (r *refusals) carriedOut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(_ types.UID, known *refusal) bool { return known.asked })
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
