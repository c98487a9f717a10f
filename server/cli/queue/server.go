package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// askQueueServer asks the server for what no Backup tells.
func askQueueServer(ctx context.Context, s *command.Cluster, timeout time.Duration) status.QueueServer {
	answer, err := s.ServerStatus(ctx, timeout, nil)
	if err != nil {
		return status.QueueServer{Problem: layout.OneLine(err.Error())}
	}
	report, err := PoliciesOf(answer)
	switch {
	case err != nil:
		return status.QueueServer{Problem: layout.OneLine(err.Error())}
	case report == nil:
		return status.QueueServer{Problem: fmt.Sprintf("the server (%s) does not say: it is Velero's, or a cleat older than this",
			strings.TrimSpace(layout.Printable(answer.Status.ServerVersion)))}
	}
	return status.QueueServer{Limit: report.ConcurrentBackups, Policy: report.Of("QueueAdmission")}
}

// policiesOf is what an answer has about policies; nil when the server does not tell of them.
func PoliciesOf(answer *velerov1.ServerStatusRequest) (*serverreport.PolicyReport, error) {
	text, told := answer.Annotations[serverreport.PoliciesAnnotation]
	if !told {
		return nil, nil
	}
	return serverreport.DecodePolicies(text)
}

// askPause is how often the server is asked while the queue is watched.
const askPause = 30 * time.Second

// keepAsking tells what the server says, again and again until ctx ends.
func keepAsking(ctx context.Context, s *command.Cluster, timeout time.Duration, told chan<- status.QueueServer) {
	for {
		answer := askQueueServer(ctx, s, timeout)
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
