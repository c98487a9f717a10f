package console

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
	"github.com/cleat-dev/cleat/server/cli/status/serverreport"
	"github.com/cleat-dev/cleat/server/internal/console"
)

// protectedFor is the age up to which a backup protects, unless a page is asked for another one.
const protectedFor = 24 * time.Hour

func overviewPage() console.Page {
	return console.Page{Path: "/{$}", Nav: "Overview", Title: "Overview", Template: "overview.html",
		Document: func(_ context.Context, l *console.Look) (any, error) { return overview(l) }}
}

// mostNamespaces is the number of namespaces that the page shows. The document has all of them.
const mostNamespaces = 300

// overviewDocument is the overview, with what the page shows of it.
type overviewDocument struct {
	*status.Overview
	Shown    []status.Protection `json:"-"`
	NotShown int                 `json:"-"`
}

func overview(l *console.Look) (*overviewDocument, error) {
	since := protectedFor
	if text := l.Value("since"); text != "" {
		var err error
		if since, err = time.ParseDuration(text); err != nil || since <= 0 {
			return nil, console.Wrong{Text: fmt.Sprintf("since=%q: want a duration such as 24h", text)}
		}
	}
	of := status.OverviewOf{Namespace: l.Viewer.Namespace, Since: since}
	namespaces, noNamespaces := console.List[*corev1.Namespace](l, namespaceKind)
	for _, namespace := range namespaces {
		of.Namespaces = append(of.Namespaces, namespace.Name)
	}
	var noBackups, noSchedules, noLocations error
	of.Backups, noBackups = console.List[*velerov1.Backup](l, backupKind)
	of.Schedules, noSchedules = console.List[*velerov1.Schedule](l, scheduleKind)
	of.Locations, noLocations = console.List[*velerov1.BackupStorageLocation](l, locationKind)
	if noBackups != nil && len(of.Backups) == 0 {
		of.Namespaces = nil // nobody may say that they are not protected
	}
	doc := status.NewOverview(of, l.Now)
	doc.Problems = problems(noNamespaces, noBackups, noSchedules, noLocations)
	server, answered := askServer(l)
	switch {
	case !answered:
		doc.Problems = append(doc.Problems, notAnswered)
	case server.Queue.Problem != "":
		doc.Problems = append(doc.Problems, "the server was asked about its policies and plugins: "+server.Queue.Problem)
	default:
		doc.Trouble = append(doc.Trouble, server.trouble(l.Now)...)
	}
	shown := doc.Namespaces[:min(mostNamespaces, len(doc.Namespaces))]
	return &overviewDocument{doc, shown, len(doc.Namespaces) - len(shown)}, nil
}

// trouble returns sentences about policies and plugins that do not work.
func (s *serverAnswer) trouble(now time.Time) (texts []string) {
	for i := range s.Policies {
		p := &s.Policies[i]
		if !p.Working() {
			texts = append(texts, fmt.Sprintf("Policy %s (%s) fails: %s", layout.OneLine(p.Plugin), layout.OneLine(p.Kind),
				layout.OneLine(p.Message)))
		}
	}
	if s.Plugins == nil {
		return texts
	}
	for i := range s.Plugins.Plugins {
		p := &s.Plugins.Plugins[i]
		if p.Status == serverreport.Quarantined {
			texts = append(texts, fmt.Sprintf("Plugin %s is %s: %s", layout.OneLine(p.Name), layout.OneLine(string(p.Status)),
				layout.OneLine(p.Reason)))
		}
	}
	return texts
}
