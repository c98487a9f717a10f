package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// askQueueServer asks the server for the state of its queue that no Backup holds.
func askQueueServer(ctx context.Context, cluster *command.Cluster, timeout time.Duration) status.QueueServer {
	answer, err := cluster.ServerStatus(ctx, timeout, nil)
	if err != nil {
		return status.QueueServer{Problem: layout.OneLine(err.Error())}
	}
	return ServerOf(answer)
}

// ServerOf returns what an answer of the server says about its queue.
func ServerOf(answer *velerov1.ServerStatusRequest) status.QueueServer {
	report, err := PoliciesOf(answer)
	switch {
	case err != nil:
		return status.QueueServer{Problem: layout.OneLine(err.Error())}
	case report == nil:
		return status.QueueServer{Problem: fmt.Sprintf(
			"the server (%s) does not report it: it is Velero's, or an older cleat",
			strings.TrimSpace(layout.Printable(answer.Status.ServerVersion)))}
	}
	return status.QueueServer{Limit: report.ConcurrentBackups, Policy: report.Of(kinds.QueueAdmission().Name),
		Unwritable: report.Unwritable}
}

// AskBlockers asks the server for all backups for which a backup waits. It returns nil if the server does not answer.
func AskBlockers(
	ctx context.Context, cluster *command.Cluster, backup string, timeout time.Duration,
) *serverreport.Blockers {
	answer, err := cluster.ServerStatus(ctx, timeout, map[string]string{serverreport.BlockersOfAnnotation: backup})
	if err != nil {
		return nil
	}
	text, ok := answer.Annotations[serverreport.BlockersAnnotation]
	if !ok {
		return nil
	}
	blockers, err := serverreport.DecodeBlockers(text)
	if err != nil {
		return nil
	}
	return blockers
}

// PoliciesOf returns the report of policies in an answer, and nil if the server makes none.
func PoliciesOf(answer *velerov1.ServerStatusRequest) (*serverreport.PolicyReport, error) {
	text, ok := answer.Annotations[serverreport.PoliciesAnnotation]
	if !ok {
		return nil, nil
	}
	return serverreport.DecodePolicies(text)
}

// askPause is the time between two questions to the server while the queue is watched.
const askPause = 30 * time.Second

// keepAsking asks the server again and again until ctx ends, and sends the answers.
func keepAsking(
	ctx context.Context, cluster *command.Cluster, timeout time.Duration, answers chan<- status.QueueServer,
) {
	for {
		answer := askQueueServer(ctx, cluster, timeout)
		select {
		case <-ctx.Done():
			return
		case answers <- answer:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askPause):
		}
	}
}
