package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/status/layout"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// queueServer is what the server says of its queue.
type QueueServer struct {
	// Limit is how many backups may run or be about to; 0 when the server does not say.
	Limit int `json:"limit,omitempty"`
	// Policy is how the one does that decides who may start; nil when the server does not say.
	Policy *serverreport.Policy `json:"policy,omitempty"`
	// Problem is why the server does not say.
	Problem string `json:"serverProblem,omitempty"`
}

// text is for people how many places are taken, and who decides.
func (q *QueueServer) Text(taken int, now time.Time) string {
	if q.Problem != "" {
		return "How many places there are is not known: " + q.Problem
	}
	text := fmt.Sprintf("%d of %s taken", taken, layout.Count(q.Limit, "place"))
	switch {
	case q.Policy == nil:
		return text
	case q.Policy.Working():
		return text + "; policy " + layout.OneLine(q.Policy.Plugin) + " decides"
	default:
		return text + "; policy " + q.Trouble(now)
	}
}

// trouble is what is wrong with the policy, and what follows from it; empty for nothing.
func (q *QueueServer) Trouble(now time.Time) string {
	if q.Policy == nil || q.Policy.Working() {
		return ""
	}
	follows := "nobody starts until it works again"
	if q.Policy.Decides != "" {
		follows = layout.OneLine(q.Policy.Decides) + " decides in its place"
	}
	return fmt.Sprintf("%s fails%s, %s (failurePolicy: %s): %s", layout.OneLine(q.Policy.Plugin), failsSince(q.Policy, now), follows,
		layout.OneLine(q.Policy.FailurePolicy), layout.OneLine(q.Policy.Message))
}

// failsSince is since when a policy fails, as far as that is known.
func failsSince(status *serverreport.Policy, now time.Time) string {
	if status.Since.IsZero() {
		return ""
	}
	return layout.SinceTime(new(metav1.NewTime(status.Since)), now)
}

// policyTable is how policies do, below the plugins.
func PolicyTable(all []serverreport.Policy, now time.Time) layout.Table {
	t := layout.Table{Head: []string{"POLICY", "PLUGIN", "ON FAILURE", "STATE"}}
	for i := range all {
		p := &all[i]
		state := "works"
		if !p.Working() {
			state = "fails" + failsSince(p, now) + ": " + layout.OneLine(p.Message)
		}
		t.Rows = append(t.Rows, []string{layout.OneLine(p.Kind), layout.OneLine(p.Plugin), layout.OneLine(p.FailurePolicy), state})
	}
	return t
}
