package console

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	cliqueue "github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// queueDocument is the document of "queue", with what could not be found out.
type queueDocument struct {
	status.Queue
	Problems []string `json:"problems,omitempty"`

	// Next is the backup that starts when a slot is free, unless the backup whose end frees it was in the way of others.
	Next string `json:"next,omitempty"`
	// Forecast is what would start next, as "queue simulate" says it; nil if nothing waits.
	Forecast *forecast `json:"simulation,omitempty"`

	Text  string       `json:"-"` // the sentence of the command
	Table layout.Table `json:"-"`
	More  int          `json:"-"` // items that the page does not list
}

// mostQueued is the number of backups that the page of the queue lists. The document has all of them.
const mostQueued = 200

func queuePage(f *cliqueue.Forecaster) console.Page {
	return console.Page{Path: "/queue", Nav: "Queue", Title: "Queue", Template: "queue.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			line, err := lineOf(l)
			server, answered := askServer(l)
			if !answered {
				server = &serverAnswer{Queue: status.QueueServer{Problem: notAnswered}}
			}
			doc := &queueDocument{Queue: status.NewQueue(l.Namespace, line, server.Queue), Problems: problems(err)}
			doc.Text = doc.QueueServer.Text(status.Taken(doc.Items), l.Now)
			if next := status.NextInQueue(doc.Items); next != nil {
				doc.Next = next.Name
			}
			if doc.Forecast, err = newForecast(l, f, line, server); err != nil {
				return nil, err
			}
			shown := doc.Items[:min(mostQueued, len(doc.Items))]
			doc.Table, doc.More = status.QueueTable(shown, l.Now), len(doc.Items)-len(shown)
			return doc, nil
		}}
}

// lineOf returns the queue as the viewer may see it.
func lineOf(l *console.Look) (queue.Line, error) {
	backups, err := console.List[*velerov1.Backup](l, backupKind)
	return queue.NewLine(backups), err
}

// explanation is the document of "queue explain".
type explanation struct {
	*status.Explanation
	Text string `json:"-"`
}

func explainPage() console.Page {
	return console.Page{Path: "/queue/{name}", Title: "Why {name} waits", Template: "explain.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			backups, err := console.List[*velerov1.Backup](l, backupKind)
			name := l.Request.PathValue("name")
			at := slices.IndexFunc(backups, func(b *velerov1.Backup) bool { return b.Name == name })
			if at < 0 && err != nil {
				return nil, err
			}
			if at < 0 {
				return nil, missing("backup", name)
			}
			var all *serverreport.Blockers
			if backups[at].Status.Phase == velerov1.BackupPhaseQueued {
				cluster := clusterOf(l)
				all, _ = console.Ask(l, "blockers/"+name, askAgain, func(ctx context.Context) *serverreport.Blockers {
					return cliqueue.AskBlockers(ctx, cluster, name, answerWithin)
				})
			}
			doc := explanation{Explanation: status.Explain(backups[at], queue.NewLine(backups), all, l.Now)}
			doc.Text, err = printed(func(w writer) error { return doc.Print(w, l.Now) })
			return doc, err
		}}
}

// missing is the error about an object that does not exist.
func missing(kind, name string) error {
	return console.Missing{Text: fmt.Sprintf("there is no %s %s", kind, layout.OneLine(name))}
}

// get reads an object with all that the API server has.
func get(ctx context.Context, cluster *command.Cluster, kind, name string, into object) error {
	err := cluster.Get(ctx, cluster.Key(name), into)
	switch {
	case apierrors.IsNotFound(err):
		return missing(kind, name)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not get %s %s in namespace %s: %w", kind, name, cluster.Namespace, err)
	default:
		return err
	}
}

// pathOf returns the path of the page of an object.
func pathOf(kinds, name string) string { return "/" + kinds + "/" + url.PathEscape(name) }
