package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/policy"
)

// queueServer is what the server says of its queue.
type queueServer struct {
	// Limit is how many backups may run or be about to; 0 when the server does not say.
	Limit int `json:"limit,omitempty"`
	// Policy is how the one does that decides who may start; nil when the server does not say.
	Policy *policy.Status `json:"policy,omitempty"`
	// Problem is why the server does not say.
	Problem string `json:"serverProblem,omitempty"`
}

// askQueueServer asks the server for what no Backup tells.
func (s *session) askQueueServer(ctx context.Context, timeout time.Duration) queueServer {
	answer, err := s.serverStatus(ctx, timeout, nil)
	if err != nil {
		return queueServer{Problem: oneLine(err.Error())}
	}
	report, err := policiesOf(answer)
	switch {
	case err != nil:
		return queueServer{Problem: oneLine(err.Error())}
	case report == nil:
		return queueServer{Problem: fmt.Sprintf("the server (%s) does not say: it is Velero's, or a cleat older than this",
			strings.TrimSpace(safe(answer.Status.ServerVersion)))}
	}
	return queueServer{Limit: report.ConcurrentBackups, Policy: report.Of("QueueAdmission")}
}

// policiesOf is what an answer has about policies; nil when the server does not tell of them.
func policiesOf(answer *velerov1.ServerStatusRequest) (*policy.Report, error) {
	text, told := answer.Annotations[policy.ReportAnnotation]
	if !told {
		return nil, nil
	}
	return policy.DecodeReport(text)
}

// askPause is how often the server is asked while the queue is watched.
const askPause = 30 * time.Second

// keepAsking tells what the server says, again and again until ctx ends.
func (s *session) keepAsking(ctx context.Context, timeout time.Duration, told chan<- queueServer) {
	for {
		answer := s.askQueueServer(ctx, timeout)
		select {
		case <-ctx.Done():
			return
		case told <- answer:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askPause):
		}
	}
}

// text is for people how many places are taken, and who decides.
func (q *queueServer) text(taken int, now time.Time) string {
	if q.Problem != "" {
		return "How many places there are is not known: " + q.Problem
	}
	text := fmt.Sprintf("%d of %s taken", taken, counted(q.Limit, "place"))
	switch {
	case q.Policy == nil:
		return text
	case q.Policy.Working():
		return text + "; policy " + oneLine(q.Policy.Plugin) + " decides"
	default:
		return text + "; policy " + q.trouble(now)
	}
}

// trouble is what is wrong with the policy, and what follows from it; empty for nothing.
func (q *queueServer) trouble(now time.Time) string {
	if q.Policy == nil || q.Policy.Working() {
		return ""
	}
	follows := "nobody starts until it works again"
	if q.Policy.Decides != "" {
		follows = oneLine(q.Policy.Decides) + " decides in its place"
	}
	return fmt.Sprintf("%s fails%s, %s (failurePolicy: %s): %s", oneLine(q.Policy.Plugin), failsSince(q.Policy, now), follows,
		oneLine(q.Policy.FailurePolicy), oneLine(q.Policy.Message))
}

// failsSince is since when a policy fails, as far as that is known.
func failsSince(status *policy.Status, now time.Time) string {
	if status.Since.IsZero() {
		return ""
	}
	return sinceWhen(new(metav1.NewTime(status.Since)), now)
}

// policyTable is how policies do, below the plugins.
func policyTable(all []policy.Status, now time.Time) table {
	t := table{head: []string{"POLICY", "PLUGIN", "ON FAILURE", "STATE"}}
	for i := range all {
		p := &all[i]
		state := "works"
		if !p.Working() {
			state = "fails" + failsSince(p, now) + ": " + oneLine(p.Message)
		}
		t.rows = append(t.rows, []string{oneLine(p.Kind), oneLine(p.Plugin), oneLine(p.FailurePolicy), state})
	}
	return t
}
