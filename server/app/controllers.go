package app

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/control/fields"
	"github.com/cleat-dev/cleat/server/internal/control/gc"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/operations"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/restores"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/verification"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/csisnapshots"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// lightWorkers is the number of requests that a controller without long work handles at once.
const lightWorkers = 4

// dryRunsAtOnce is the number of concurrent dry runs of backups, and of restores.
const dryRunsAtOnce = 2

// services are shared by the controllers.
type services struct {
	identity       string          // of this process
	lost           context.Context // ends when the lease is lost
	signing        *signing.Keys   // of the objects that the server writes
	keys           *loadkey.Keys   // of runs
	live           client.Reader   // reads from the API server, and waits for one that is away
	host           *pluginhost.Host
	pluginsChanged <-chan event.GenericEvent
	storesRenewed  <-chan struct{} // files have changed that plugins may have read
	policies       *policy.Policies
	opener         *location.Opener
	discoverer     *clientdiscovery.DiscoveryClient
	scratch        string // directory of temporary files
	registry       prometheus.Registerer
	downloads      *url.URL // at which users reach the server's own downloads; nil if they cannot
	localDownloads *url.URL // at which users on this machine do, for what is on it
}

// controllers makes the controllers of a server, a method for each. They share its fields.
type controllers struct {
	Config
	services
	mgr         ctrl.Manager
	cluster     *run.Cluster
	resources   *discovery.Helper
	references  *reference.Table
	events      events.EventRecorder
	metrics     *metrics.Metrics
	runLogs     run.LogOptions
	backupRuns  *run.Runs
	restoreRuns *run.Runs
	restoring   restores.Accounts
	journals    *operation.Journals
	following   *operations.Common
	volumes     *volumes.Hub
	trusted     *verification.Keys // of backups
}

func newControllers(mgr ctrl.Manager, c Config, s services) (*controllers, error) {
	collected, err := metrics.New(s.registry, mgr.GetClient(), c.Namespace)
	if err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	references, err := reference.New(c.File.Backups.References)
	if err != nil {
		return nil, fmt.Errorf("read the table of references: %w", err)
	}
	all := &controllers{
		Config:     c,
		services:   s,
		mgr:        mgr,
		cluster:    &run.Cluster{Client: mgr.GetClient(), Live: s.live, Namespace: c.Namespace},
		resources:  discovery.New(s.discoverer, c.Log.Named("discovery")),
		references: references,
		events:     mgr.GetEventRecorder("cleat"),
		metrics:    collected,
		runLogs:    run.LogOptions{Dir: s.scratch, JSON: c.Options.LogFormat == "json"},
		journals:   operation.NewJournals(mgr.GetClient(), s.live, c.Namespace, s.signing, c.Log.Named("operations")),
	}
	all.volumes = all.newVolumes()
	all.trusted = all.newTrust()
	all.backupRuns = all.newRuns("backup", c.Options.BackupAttempts)
	all.restoreRuns = all.newRuns("restore", c.Options.RestoreAttempts)
	all.following = &operations.Common{
		Cluster:     all.cluster,
		Stores:      s.opener,
		Journals:    all.journals,
		Events:      all.events,
		Metrics:     collected,
		Logs:        c.logs,
		SpoolDir:    s.scratch,
		StoreOutage: c.Options.StoreOutageTimeout,
		Log:         c.Log.Named("operations"),
		Now:         time.Now,
	}
	return all, nil
}

// newVolumes returns the hub of what is done about volumes.
func (c *controllers) newVolumes() *volumes.Hub {
	api := c.mgr.GetClient()
	return &volumes.Hub{
		Client:    api,
		Live:      c.live,
		Namespace: c.Namespace,
		Roles:     c.host.HasRole,
		Keys:      c.keys,
		HasMover: func(name string) bool {
			_, err := movers{c.host}.Find(name)
			return err == nil
		},
		Snapshotters: c.opener,
		Records:      volumes.NewRecords(api, c.live, c.Namespace, c.signing, c.Log.Named("snapshots")),
		CSI:          csisnapshots.New(c.REST, c.live, api, c.Namespace, c.keys),
		Repositories: newRepositories(c.cluster, c.opener, c.host, c.Log.Named("repositories")),
	}
}

func (c *controllers) newRuns(kind string, attempts int) *run.Runs {
	return run.NewRuns(run.RunsOptions{
		Kind:     kind,
		Identity: c.identity,
		Attempts: attempts,
		Grace:    c.Options.ShutdownGracePeriod,
		Lost:     c.lost,
	})
}

// addControllers adds all controllers to mgr, which starts them.
func addControllers(mgr ctrl.Manager, config Config, s services) error {
	c, err := newControllers(mgr, config, s)
	if err != nil {
		return err
	}
	r := &registrar{mgr: mgr, log: c.Log, disabled: c.Options.Disabled()}
	locations := c.locations()
	if err := locations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller backup-storage-location: %w", err)
	}
	if err := c.addOperations(r); err != nil {
		return err
	}

	queue, err := c.queue(locations)
	if err != nil {
		return err
	}
	runner, workers := c.backups(), max(1, c.Options.ConcurrentBackups)
	if r.addQueue(queue, c.pluginsChanged) {
		runner.Admissions = queue
		workers += lightWorkers // which do not wait for the runs; the queue limits those
	}
	finalizer := c.backupFinalizer()
	stopBackup, unsettled := c.backupRuns.StopOnRequest(), run.UnsettledBackups()
	r.add(run.BackupController, &velerov1.Backup{}, workers, runner, stopBackup, unsettled)
	r.add(run.BackupDryRunController, &velerov1.Backup{}, dryRunsAtOnce, c.backupDryRuns(), stopBackup, unsettled)
	r.add(run.BackupFinalizerController, &velerov1.Backup{}, lightWorkers, finalizer, finalizer.OnDelete(), unsettled)

	r.setUp(run.BackupDeletionController, lightWorkers, c.deletions())
	r.setUp(run.BackupHoldController, lightWorkers, c.holds())
	if r.needs(run.GarbageCollectionController, run.BackupDeletionController) {
		r.setUp(run.GarbageCollectionController, gc.Workers, c.garbageCollection())
	}
	syncer, err := c.backupSync()
	if err != nil {
		return err
	}
	r.setUp(run.BackupSyncController, lightWorkers, syncer)

	hooks, err := c.addHooks()
	if err != nil {
		return err
	}
	restoring, err := c.restores(hooks)
	if err != nil {
		return err
	}
	stopRestore := c.restoreRuns.StopOnRequest()
	r.add(run.RestoreController, &velerov1.Restore{}, c.Options.ConcurrentRestores+restores.MaxWaiting, restoring,
		stopRestore)
	r.add(run.RestoreDryRunController, &velerov1.Restore{}, dryRunsAtOnce, c.restoreDryRuns(*restoring), stopRestore)
	r.add(run.RestoreFinalizerController, &velerov1.Restore{}, lightWorkers, c.restoreFinalizer(hooks), nil)

	if err := c.addRehearsals(r, *restoring, stopRestore); err != nil {
		return err
	}
	if err := c.addRepositories(r); err != nil {
		return err
	}
	c.addSnapshots(r)
	verifications := c.verifications()
	r.setUp(run.VerificationController, verifications.Workers(), verifications)
	r.add(run.ScheduleController, &velerov1.Schedule{}, lightWorkers, c.schedules(), nil)
	r.add(run.DownloadRequestController, &velerov1.DownloadRequest{}, lightWorkers, c.downloadRequests(), nil)
	r.add(run.ServerStatusController, &velerov1.ServerStatusRequest{}, lightWorkers, c.statusRequests(queue), nil)
	r.setUp(run.UnknownFieldsController, 1, &fields.Controller{Cluster: c.cluster, Events: c.events,
		Log: c.Log.Named(run.UnknownFieldsController)})
	return r.err
}
