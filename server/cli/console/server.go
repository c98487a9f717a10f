package console

import (
	"context"
	"time"

	"github.com/cleat-dev/cleat/server/cli/plugin"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

const (
	// askAgain is the age of an answer of the server after which an open page asks for another one.
	askAgain = time.Minute
	// answerWithin is how long the server may take for an answer.
	answerWithin = 10 * time.Second
	// notAnswered is said while nobody has got an answer yet.
	notAnswered = "the server has not answered yet; an open page shows the answer when it is there"
)

// serverAnswer is what the server says about itself.
type serverAnswer struct {
	Queue    status.QueueServer // its Problem is why there is no answer
	Policies []serverreport.Policy
	Keys     []serverreport.Key         // whose signatures of backups are accepted
	Plugins  *serverreport.PluginReport // nil without an answer
	Version  string
}

// askServer returns the last answer of the server, and false if there is none yet.
func askServer(l *console.Look) (*serverAnswer, bool) {
	cluster := clusterOf(l)
	return console.Ask(l, "server", askAgain, func(ctx context.Context) *serverAnswer {
		request, err := cluster.ServerStatus(ctx, answerWithin, nil)
		if err != nil {
			return &serverAnswer{Queue: status.QueueServer{Problem: layout.OneLine(err.Error())}}
		}
		_ = cluster.Delete(ctx, request) // the server would delete it in a minute, but pages ask often
		answer := &serverAnswer{Queue: queue.ServerOf(request), Version: serverreport.ServerVersion(request)}
		if report, err := queue.PoliciesOf(request); err == nil && report != nil {
			answer.Policies, answer.Keys = report.Policies, report.Keys
		}
		if answer.Plugins, err = plugin.ReportOf(request); err != nil {
			answer.Queue.Problem = layout.OneLine(err.Error())
		}
		return answer
	})
}
