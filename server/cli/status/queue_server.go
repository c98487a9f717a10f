package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// QueueServer is the report of the server about its queue.
type QueueServer struct {
	// Limit is the number of slots, which running and ready backups hold; 0 if it is not known.
	Limit int `json:"limit,omitempty"`
	// Policy is the status of the admission policy; nil if it is not known.
	Policy *serverreport.Policy `json:"policy,omitempty"`
	// Unwritable are backups that the API server refuses to write. Complete adds them to the items.
	Unwritable []serverreport.Unwritable `json:"-"`
	// Problem is the reason if the server reports nothing.
	Problem string `json:"serverProblem,omitempty"`
}

// Complete sets the reason of the items that wait or hold no slot because the server cannot write them, not even the
// reason.
func (q *QueueServer) Complete(items []QueueItem) {
	if len(q.Unwritable) == 0 {
		return
	}
	reasons := make(map[string]*serverreport.Unwritable, len(q.Unwritable))
	for i := range q.Unwritable {
		reasons[q.Unwritable[i].Name] = &q.Unwritable[i]
	}
	for i := range items {
		if reason := reasons[items[i].Name]; reason != nil {
			follows := "holds no slot: "
			if items[i].waits() {
				follows = "passed over: "
			}
			items[i].Wait = &velerov1.QueueWait{
				Reason: reasonUnwritable, Message: follows + reason.Message, Policy: queue.ByServer,
				Since: metav1.NewTime(reason.Since),
			}
		}
	}
}

const reasonUnwritable = "Unwritable"

// Taken returns the number of slots that items hold.
func Taken(items []QueueItem) (taken int) {
	for i := range items {
		if item := &items[i]; !item.waits() && (item.Wait == nil || item.Wait.Reason != reasonUnwritable) {
			taken++
		}
	}
	return taken
}

// Text returns the sentence about the slots in use and the policy.
func (q *QueueServer) Text(taken int, now time.Time) string {
	if q.Problem != "" {
		return "The number of slots is not known: " + q.Problem
	}
	text := fmt.Sprintf("%d of %s in use", taken, layout.Count(q.Limit, "slot"))
	switch {
	case q.Policy == nil:
		return text
	case q.Policy.Working():
		return text + "; policy " + layout.OneLine(q.Policy.Plugin) + " decides"
	default:
		return text + "; policy " + q.Trouble(now)
	}
}

// Trouble returns the problem of the policy and its consequences; empty if the policy works.
func (q *QueueServer) Trouble(now time.Time) string {
	if q.Policy == nil || q.Policy.Working() {
		return ""
	}
	follows := "no backup starts until it works again"
	if q.Policy.Decides != "" {
		follows = layout.OneLine(q.Policy.Decides) + " decides instead"
	}
	return fmt.Sprintf("%s fails%s, %s (failurePolicy: %s): %s", layout.OneLine(q.Policy.Plugin),
		failsSince(q.Policy, now), follows,
		layout.OneLine(q.Policy.FailurePolicy), layout.OneLine(q.Policy.Message))
}

// failsSince returns the time since when a policy fails, as a part of a sentence; empty if it is not known.
func failsSince(status *serverreport.Policy, now time.Time) string {
	if status.Since.IsZero() {
		return ""
	}
	return layout.SinceTime(new(metav1.NewTime(status.Since)), now)
}

// PolicyTable returns the table of policies in "plugin get".
func PolicyTable(all []serverreport.Policy, now time.Time) layout.Table {
	t := layout.Table{Head: []string{"POLICY", "PLUGIN", "ON FAILURE", "STATE"}}
	for i := range all {
		p := &all[i]
		state := "works"
		if !p.Working() {
			state = "fails" + failsSince(p, now) + ": " + layout.OneLine(p.Message)
		}
		t.Rows = append(t.Rows, []string{layout.OneLine(p.Kind), layout.OneLine(p.Plugin), layout.OneLine(p.FailurePolicy),
			state})
	}
	return t
}
