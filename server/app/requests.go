package app

import (
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/requests"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/report/operationreport"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// downloadRequests returns the controller that answers DownloadRequests.
func (c *controllers) downloadRequests() *requests.Downloads {
	return &requests.Downloads{
		Cluster: c.cluster,
		Stores:  c.opener,
		Keys:    c.signing,
		Base:    c.downloads,
		Local:   c.localDownloads,
		Log:     c.Log.Named(run.DownloadRequestController),
		Now:     time.Now,
	}
}

// statusRequests returns the controller that answers ServerStatusRequests.
func (c *controllers) statusRequests(queue *backupqueue.Controller) *requests.Statuses {
	return &requests.Statuses{
		Cluster: c.cluster,
		Keys:    c.signing,
		Version: c.Version,
		Plugins: func() []velerov1.PluginInfo { return listPlugins(c.host.Entries()) },
		Report:  reportPlugins(c.Config, c.host),
		Policies: func() *serverreport.PolicyReport {
			report := c.policies.Report(max(1, c.Options.ConcurrentBackups))
			report.Unwritable = queue.Unwritable()
			report.Keys = c.publicKeys()
			return report
		},
		Blockers: queue.Blockers,
		Operations: func(owners []string) *serverreport.Operations {
			return operationreport.OfMonitor(c.following.Monitor, owners, time.Now())
		},
		Restoring: c.restoring.Report,
		Log:       c.Log.Named(run.ServerStatusController),
		Now:       time.Now,
	}
}
