package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller"
	"github.com/cleat-dev/cleat/server/controller/backupqueue"
	"github.com/cleat-dev/cleat/server/controller/backups"
	"github.com/cleat-dev/cleat/server/controller/deletions"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/controller/requests"
	"github.com/cleat-dev/cleat/server/controller/restores"
	"github.com/cleat-dev/cleat/server/controller/schedules"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// Parts are what the controllers are made of.
type Parts struct {
	Stores        run.Stores
	Plugins       run.Plugins
	BackupEngine  backups.Engine
	RestoreEngine restores.Engine
	ServerVersion backups.ServerVersion // of the API server
	ListPlugins   func() []velerov1.PluginInfo
	ReportPlugins func(ctx context.Context, details string) *serverreport.PluginReport // see Statuses

	ReportPolicies func() *serverreport.PolicyReport // see Statuses

	Namespace          string
	Version            string // of this server
	Defaults           backups.Defaults
	Admission          backupqueue.Admission
	ConcurrentBackups  int                       // that run or are about to; less than 1 means 1
	ConcurrentRestores int                       // that run; less than 1 means 1
	QueueSweep         time.Duration             // how often to look at the queue without a reason; 0 for never
	QueueWake          <-chan event.GenericEvent // tells of changes that no object shows; may be nil
	QueueMetrics       *backupqueue.Metrics
	Grace              time.Duration   // for running operations, once the server is told to stop
	LostLead           context.Context // ends when another server may have taken over
	SkipImmediately    bool            // what schedules do that do not say it
	Disabled           []string        // controllers by name
	LogOptions         run.LogOptions
	SpoolDir           string

	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time
}

// workers are how many requests the light controllers work on at once.
const workers = 4

// Register adds the controllers to mgr. They start with it.
func Register(mgr ctrl.Manager, p Parts) error {
	cluster := &run.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: p.Namespace}
	backupRuns, restoreRuns := run.NewRuns(p.LostLead, p.Grace), run.NewRuns(p.LostLead, p.Grace)
	r := registrar{mgr: mgr, log: p.Log, disabled: p.Disabled}

	r.addQueue(&backupqueue.Controller{
		Cluster: cluster, Admission: p.Admission, Limit: max(1, p.ConcurrentBackups), Sweep: p.QueueSweep,
		Events: mgr.GetEventRecorder("cleat"), Metrics: p.QueueMetrics, Log: p.Log.Named(run.BackupQueueController), Now: p.Now,
	}, p.QueueWake)
	r.add(run.BackupController, &velerov1.Backup{}, max(1, p.ConcurrentBackups), &backups.Controller{
		Cluster: cluster, Runs: backupRuns, Stores: p.Stores, Plugins: p.Plugins, Engine: p.BackupEngine,
		ServerVersion: p.ServerVersion, Defaults: p.Defaults, LogOptions: p.LogOptions,
		Metrics: p.Metrics, Log: p.Log.Named(run.BackupController), Now: p.Now,
	}, backupRuns.StopDeleted())
	r.add(run.BackupFinalizerController, &velerov1.Backup{}, workers, &backups.Finalizer{
		Cluster: cluster, Stores: p.Stores, Metrics: p.Metrics, Log: p.Log.Named(run.BackupFinalizerController), Now: p.Now,
	}, nil)
	r.add(run.BackupDeletionController, &velerov1.DeleteBackupRequest{}, workers, &deletions.Controller{
		Cluster: cluster, Stores: p.Stores, Metrics: p.Metrics, Log: p.Log.Named(run.BackupDeletionController), Now: p.Now,
	}, nil)
	r.add(run.RestoreController, &velerov1.Restore{}, max(1, p.ConcurrentRestores), &restores.Controller{
		Cluster: cluster, Runs: restoreRuns, Stores: p.Stores, Plugins: p.Plugins, Engine: p.RestoreEngine,
		ItemOperationTimeout: p.Defaults.ItemOperationTimeout, LogOptions: p.LogOptions, SpoolDir: p.SpoolDir,
		Metrics: p.Metrics, Log: p.Log.Named(run.RestoreController), Now: p.Now,
	}, restoreRuns.StopDeleted())
	r.add(run.RestoreFinalizerController, &velerov1.Restore{}, workers, &restores.Finalizer{
		Cluster: cluster, Runs: restoreRuns, Stores: p.Stores, Metrics: p.Metrics,
		Log: p.Log.Named(run.RestoreFinalizerController), Now: p.Now,
	}, nil)
	r.add(run.ScheduleController, &velerov1.Schedule{}, workers, &schedules.Controller{
		Cluster: cluster, SkipImmediately: p.SkipImmediately, Events: mgr.GetEventRecorder("cleat"),
		Metrics: p.Metrics, Log: p.Log.Named(run.ScheduleController), Now: p.Now,
	}, nil)
	r.add(run.DownloadRequestController, &velerov1.DownloadRequest{}, workers, &requests.Downloads{
		Cluster: cluster, Stores: p.Stores, Log: p.Log.Named(run.DownloadRequestController), Now: p.Now,
	}, nil)
	r.add(run.ServerStatusController, &velerov1.ServerStatusRequest{}, workers, &requests.Statuses{
		Cluster: cluster, Version: p.Version, Plugins: p.ListPlugins, Report: p.ReportPlugins, Policies: p.ReportPolicies,
		Log: p.Log.Named(run.ServerStatusController), Now: p.Now,
	}, nil)
	return r.err
}

// registrar adds controllers until one fails.
type registrar struct {
	mgr      ctrl.Manager
	log      hclog.Logger
	disabled []string
	err      error
}

// add makes one controller of objects of one kind, and tells watch, unless it is nil, what happens
// to them even while they are worked on.
func (r *registrar) add(name string, object client.Object, workers int, reconciler reconcile.Reconciler, watch handler.EventHandler) {
	if r.err != nil {
		return
	}
	if r.isDisabled(name) {
		return
	}
	b := controller.NewBuilder(r.mgr, name, workers, NewLogr(r.log.Named(name))).For(object)
	if watch != nil {
		b = b.Watches(object, watch)
	}
	r.complete(name, b, reconciler)
}

// addQueue makes the controller of the queue. Backups that nobody starts are not admitted: they would hold their
// places for ever.
func (r *registrar) addQueue(q *backupqueue.Controller, wake <-chan event.GenericEvent) {
	if r.isDisabled(run.BackupQueueController) {
		return
	}
	if slices.Contains(r.disabled, run.BackupController) {
		r.log.Warn("controller disabled, because controller \"backup\" is", "controller", run.BackupQueueController)
		return
	}
	r.complete(run.BackupQueueController, q.Setup(controller.NewBuilder(r.mgr, run.BackupQueueController, 1, NewLogr(r.log.Named(run.BackupQueueController))), wake), q)
}

func (r *registrar) isDisabled(name string) bool {
	disabled := slices.Contains(r.disabled, name)
	if disabled {
		r.log.Warn("controller disabled", "controller", name)
	}
	return disabled
}

func (r *registrar) complete(name string, b *ctrl.Builder, reconciler reconcile.Reconciler) {
	if err := b.Complete(reconciler); err != nil {
		r.err = fmt.Errorf("set up controller %s: %w", name, err)
	}
}
