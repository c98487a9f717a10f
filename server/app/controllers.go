package app

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	clientdiscovery "k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/serverreport"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/control"
	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/backups"
	"github.com/cleat-dev/cleat/server/internal/control/backupsync"
	"github.com/cleat-dev/cleat/server/internal/control/deletions"
	"github.com/cleat-dev/cleat/server/internal/control/gc"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/operations"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/requests"
	"github.com/cleat-dev/cleat/server/internal/control/restores"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/schedules"
	"github.com/cleat-dev/cleat/server/internal/control/snapshots"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/engine/snapshot"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/csisnapshots"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/report/operationreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// lightWorkers is the number of requests that a controller without long work handles at once.
const lightWorkers = 4

// dryRunsAtOnce is the number of dry runs of backups, and of restores, that are at work at once.
const dryRunsAtOnce = 2

// services are what the controllers share.
type services struct {
	identity       string          // of this process
	lost           context.Context // ends when the lease is lost
	signing        *signing.Keys   // of what the server writes
	keys           *loadkey.Keys   // of runs
	live           client.Reader   // reads from the API server, and waits for one that is away
	host           *pluginhost.Host
	pluginsChanged <-chan event.GenericEvent
	policies       *policy.Policies
	opener         *location.Opener
	discoverer     *clientdiscovery.DiscoveryClient
	scratch        string // directory of temporary files
	registry       prometheus.Registerer
	downloads      *url.URL // at which users reach the server's own downloads; nil if they cannot
}

// addControllers adds all controllers to mgr, which starts them.
func addControllers(mgr ctrl.Manager, c Config, s services) error {
	o := c.Options
	collected, err := metrics.New(s.registry, mgr.GetClient(), c.Namespace)
	if err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	queueMetrics, err := backupqueue.NewMetrics(s.registry)
	if err != nil {
		return fmt.Errorf("register the metrics of the queue: %w", err)
	}
	resources := discovery.New(s.discoverer, c.Log.Named("discovery"))
	restoreEngine, err := newRestoreEngine(c, s.keys, resources, s.host.HasRole)
	if err != nil {
		return err
	}
	locations := &location.Reconciler{
		Client: mgr.GetClient(), Opener: s.opener, Log: c.Log.Named("backup-storage-location"), Now: time.Now,
		Frequency: o.StoreValidationFrequency, DefaultLocation: o.DefaultBackupStorageLocation,
		PublicPassword: func(ctx context.Context, l *velerov1.BackupStorageLocation) (bool, error) {
			return repopassword.PublicIn(ctx, s.live, l.Namespace, l.Name)
		},
	}
	if err := locations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller backup-storage-location: %w", err)
	}

	cluster := &run.Cluster{Client: mgr.GetClient(), Live: s.live, Namespace: c.Namespace}
	runs := func(kind string, attempts int) *run.Runs {
		return run.NewRuns(run.RunsOptions{Kind: kind, Identity: s.identity, Attempts: attempts, Grace: o.ShutdownGracePeriod,
			Lost: s.lost})
	}
	backupRuns, restoreRuns := runs("backup", o.BackupAttempts), runs("restore", o.RestoreAttempts)
	recorder := mgr.GetEventRecorder("cleat")
	logs := run.LogOptions{Dir: s.scratch, JSON: o.LogFormat == "json"}
	r := registrar{mgr: mgr, log: c.Log, disabled: o.Disabled()}
	log := c.Log.Named
	journals := operation.NewJournals(mgr.GetClient(), s.live, c.Namespace, s.signing, log("operations"))
	volumeSnapshots := csisnapshots.New(c.REST, s.live, mgr.GetClient(), c.Namespace)
	records := snapshot.NewRecords(mgr.GetClient(), s.live, c.Namespace, s.signing, log("snapshots"))
	following := &operations.Common{
		Cluster: cluster, Stores: s.opener, Journals: journals, Events: recorder, Metrics: collected,
		Logs: c.logs, SpoolDir: s.scratch, StoreOutage: o.StoreOutageTimeout, Log: log("operations"), Now: time.Now,
	}
	if err := addOperations(&r, c, s, following); err != nil {
		return err
	}

	admission := &backupqueue.Controller{
		Cluster: cluster, Admission: s.policies.Admission, Limit: max(1, o.ConcurrentBackups), Sweep: o.QueueSweep,
		Locations: &backupqueue.Locations{Default: o.DefaultBackupStorageLocation, Ask: func(name string) {
			locations.Ask(client.ObjectKey{Namespace: c.Namespace, Name: name})
		}},
		Exact: queue.DefaultExact(), Pace: backupqueue.DefaultPace(),
		Events: recorder, Metrics: queueMetrics, Log: log(run.BackupQueueController), Now: time.Now,
	}
	references, err := reference.New(c.File.Backups.References)
	if err != nil {
		return fmt.Errorf("read the table of references: %w", err)
	}
	backupEngine, refresh := newBackupEngine(c, s.keys, resources, references, s.host.HasRole)
	runner := &backups.Controller{
		Cluster: cluster, Runs: backupRuns, Stores: s.opener, StoreOutage: o.StoreOutageTimeout, Plugins: s.host,
		Engine: backupEngine, Manifests: s.policies.Manifests,
		ServerVersion: s.discoverer.ServerVersionWithContext, Defaults: backupDefaults(o), LogOptions: logs, Logs: c.logs,
		Journals: journals, Monitor: following.Monitor, Snapshotters: s.opener, Records: records,
		VolumeSnapshots: volumeSnapshots,
		Events:          recorder, Metrics: collected, Log: log(run.BackupController), Now: time.Now,
	}
	workers := max(1, o.ConcurrentBackups)
	if r.addQueue(admission, s.pluginsChanged) {
		runner.Admissions = admission
		workers += lightWorkers // which do not wait for the runs; the queue limits those
	}
	r.add(run.BackupController, &velerov1.Backup{}, workers, runner, backupRuns.StopOnRequest(), run.UnsettledBackups())
	dryRunner := &backups.Controller{
		Cluster: cluster, Runs: backupRuns, Stores: s.opener, StoreOutage: o.StoreOutageTimeout, Plugins: s.host,
		Engine:    backupEngine,
		Manifests: s.policies.DryRuns, Snapshotters: s.opener, ServerVersion: s.discoverer.ServerVersionWithContext,
		Defaults: backupDefaults(o), LogOptions: logs,
		Log: log(run.BackupDryRunController), Now: time.Now,
	}
	r.add(run.BackupDryRunController, &velerov1.Backup{}, dryRunsAtOnce, &backups.DryRuns{
		Controller: dryRunner, Harmless: c.File.Plugins.DryRun,
	}, backupRuns.StopOnRequest(), run.UnsettledBackups())
	finalizer := &backups.Finalizer{
		Cluster: cluster, Stores: s.opener, Plugins: s.host, Roles: s.host.HasRole, Engine: refresh, SpoolDir: s.scratch,
		VolumeSnapshots: volumeSnapshots,
		Manifests:       s.policies.Manifests, References: references, Keys: s.keys, HasMover: func(name string) bool {
			_, err := movers{s.host}.Find(name)
			return err == nil
		},
		Logs: c.logs, Metrics: collected, StoreOutage: o.StoreOutageTimeout, Log: log(run.BackupFinalizerController),
		Now: time.Now,
	}
	r.add(run.BackupFinalizerController, &velerov1.Backup{}, lightWorkers, finalizer, finalizer.OnDelete(),
		run.UnsettledBackups())
	deleter := &deletions.Controller{
		Cluster: cluster, Stores: s.opener, StoreOutage: o.StoreOutageTimeout, Plugins: s.host,
		Engine: newDeletionEngine(c, resources, s.host.HasRole), Repositories: newRepositories(cluster, s.opener, s.host,
			log("repositories")), Keys: s.keys, Snapshotters: s.opener, SpoolDir: s.scratch, Metrics: collected,
		Events: recorder,
		Log:    log(run.BackupDeletionController), Now: time.Now,
	}
	r.setUp(run.BackupDeletionController, lightWorkers, deleter.Setup, deleter)
	collector := &gc.Controller{
		Cluster: cluster, Frequency: o.GarbageCollectionFrequency, Events: recorder,
		Log: log(run.GarbageCollectionController), Now: time.Now,
	}
	if r.needs(run.GarbageCollectionController, run.BackupDeletionController) {
		r.setUp(run.GarbageCollectionController, gc.Workers, collector.Setup, collector)
	}
	cached, err := storeOf(s.lost, mgr, &velerov1.Backup{})
	if err != nil {
		return err
	}
	// without a limit, as other requests of controllers
	api, err := kubeapi.New(mgr.GetConfig(), log(run.BackupSyncController), o.APIOutageTimeout)
	if err != nil {
		return err
	}
	syncer := &backupsync.Controller{
		Cluster: cluster, API: api, Stores: s.opener, Backups: cached, Period: o.BackupSyncPeriod,
		Log: log(run.BackupSyncController), Now: time.Now,
	}
	r.setUp(run.BackupSyncController, lightWorkers, syncer.Setup, syncer)
	restoreHooks, err := addHooks(mgr, c, s)
	if err != nil {
		return err
	}
	restoring := restores.Controller{
		Cluster: cluster, Runs: restoreRuns, Stores: s.opener, StoreOutage: o.StoreOutageTimeout, Plugins: s.host,
		Engine: restoreEngine, Keys: s.keys,
		Hooks: restoreHooks, ItemOperationTimeout: o.DefaultItemOperationTimeout, AllVersions: o.HasFeature(
			config.EnableAPIGroupVersions,
		),
		LogOptions: logs, Logs: c.logs, SpoolDir: s.scratch, Journals: journals, Monitor: following.Monitor,
		Snapshotters: s.opener, Records: records,
		Events: recorder, Metrics: collected, Log: log(run.RestoreController), Now: time.Now,
	}
	r.add(run.RestoreController, &velerov1.Restore{}, max(1, o.ConcurrentRestores), &restoring,
		restoreRuns.StopOnRequest())
	dryRestoring := restoring
	dryRestoring.Journals, dryRestoring.Monitor, dryRestoring.Hooks, dryRestoring.Logs = nil, nil, nil, nil
	dryRestoring.Log = log(run.RestoreDryRunController)
	r.add(run.RestoreDryRunController, &velerov1.Restore{}, dryRunsAtOnce, &restores.DryRuns{
		Controller: &dryRestoring, Harmless: c.File.Plugins.DryRun,
	}, restoreRuns.StopOnRequest())
	ending := &restores.Finalizer{
		Cluster: cluster, Runs: restoreRuns, Stores: s.opener, Hooks: restoreHooks, ResourceTimeout: o.ResourceTimeout,
		LogOptions: logs, Logs: c.logs, Metrics: collected,
		StoreOutage: o.StoreOutageTimeout, Log: log(run.RestoreFinalizerController), Now: time.Now,
	}
	if o.HasFeature(config.EnableCSI) {
		ending.VolumeSnapshots = volumeSnapshots
	}
	r.add(run.RestoreFinalizerController, &velerov1.Restore{}, lightWorkers, ending, nil)
	addSnapshots(&r, cluster, s, records, volumeSnapshots)
	r.add(run.ScheduleController, &velerov1.Schedule{}, lightWorkers, &schedules.Controller{
		Cluster: cluster, SkipImmediately: o.ScheduleSkipImmediately, Events: recorder,
		Metrics: collected, Log: log(run.ScheduleController), Now: time.Now,
	}, nil)
	r.add(run.DownloadRequestController, &velerov1.DownloadRequest{}, lightWorkers, &requests.Downloads{
		Cluster: cluster, Stores: s.opener, Keys: s.signing, Base: s.downloads, Log: log(run.DownloadRequestController),
		Now: time.Now,
	}, nil)
	r.add(run.ServerStatusController, &velerov1.ServerStatusRequest{}, lightWorkers, &requests.Statuses{
		Cluster: cluster, Keys: s.signing, Version: c.Version,
		Plugins: func() []velerov1.PluginInfo { return listPlugins(s.host.Entries()) },
		Report:  reportPlugins(c, s.host),
		Policies: func() *serverreport.PolicyReport {
			report := s.policies.Report(max(1, o.ConcurrentBackups))
			report.Unwritable = admission.Unwritable()
			return report
		},
		Blockers: admission.Blockers,
		Operations: func(owners []string) *serverreport.Operations {
			return operationreport.OfMonitor(following.Monitor, owners, time.Now())
		},
		Log: log(run.ServerStatusController), Now: time.Now,
	}, nil)
	return r.err
}

// addSnapshots adds the controllers that look after snapshots. They cannot be disabled: what others have left behind
// has to go.
func addSnapshots(
	r *registrar, cluster *run.Cluster, s services, records *snapshot.Records, csi snapshot.VolumeSnapshots,
) {
	leftovers := &snapshots.Controller{Cluster: cluster, Stores: s.opener, Snapshotters: s.opener, Records: records,
		VolumeSnapshots: csi, Log: r.log.Named("snapshots")}
	r.complete("snapshots", leftovers.Setup(r.builder("snapshots", lightWorkers)), leftovers)
	const locations = "volume-snapshot-location"
	r.complete(locations, r.builder(locations, 1).For(&velerov1.VolumeSnapshotLocation{}),
		&location.SnapshotLocations{Client: cluster, Opener: s.opener})
}

// addHooks adds to mgr what runs the hooks of restored pods.
func addHooks(mgr ctrl.Manager, c Config, s services) (*hook.Restores, error) {
	executor, err := hook.NewExecutor(c.REST, c.Options.APIOutageTimeout)
	if err != nil {
		return nil, err
	}
	hooks := hook.NewRestores(s.lost, executor, c.Options.ShutdownGracePeriod)
	if err := mgr.Add(hooks); err != nil {
		return nil, fmt.Errorf("add the hooks of restores: %w", err)
	}
	return hooks, nil
}

func newBackupEngine(
	c Config, keys *loadkey.Keys, resources *discovery.Helper, references *reference.Table, roles operation.Roles,
) (backups.Engine, backups.Refresh) {
	deps := backup.Deps{
		Config: c.REST, Discovery: resources, Keys: keys, PageSize: c.Options.ClientPageSize,
		Workers:  c.Options.ItemBlockWorkerCount,
		RetryFor: c.Options.APIOutageTimeout, CSI: c.Options.HasFeature(config.EnableCSI), AllVersions: c.Options.HasFeature(
			config.EnableAPIGroupVersions,
		),
		References: references, Uploader: c.Options.UploaderType, Roles: roles,
	}
	if deps.PageSize == 0 {
		deps.PageSize = -1 // whole lists
	}
	return func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error) {
			return backup.Run(ctx, deps, req, archive)
		}, func(ctx context.Context, req backup.Request, operations []operation.Operation, dir string) (*backup.Refreshed,
			error) {
			return backup.Refresh(ctx, deps, req, operations, dir)
		}
}

func newDeletionEngine(c Config, resources *discovery.Helper, roles operation.Roles) deletions.Engine {
	deps := deletion.Deps{Resources: resources.Snapshot, CSI: c.Options.HasFeature(config.EnableCSI), Roles: roles}
	return func(ctx context.Context, req deletion.Request) error { return deletion.Run(ctx, deps, req) }
}

func newRestoreEngine(
	c Config, keys *loadkey.Keys, resources *discovery.Helper, roles operation.Roles,
) (restores.Engine, error) {
	o := c.Options
	priorities, err := plan.ParsePriorities(o.RestoreResourcePriorities)
	if err != nil {
		return nil, fmt.Errorf("--restore-resource-priorities: %w", err)
	}
	deps := restore.Deps{Config: c.REST, Discovery: resources, Keys: keys, Roles: roles, Options: restore.Options{
		Priorities: priorities, Workers: o.RestoreWorkers, ResourceTimeout: o.ResourceTimeout,
		TerminatingTimeout: o.TerminatingResourceTimeout, EnableCSI: o.HasFeature(config.EnableCSI), Pod: podName(),
		OutageTimeout: o.APIOutageTimeout,
	}}
	return func(ctx context.Context, req restore.Request) (*restore.Result, error) {
		return restore.Run(ctx, deps, req)
	}, nil
}

// podName returns the name of the pod that this server runs in, "" if it runs in none. The hostname of a pod is its
// name.
func podName() string {
	if pod := os.Getenv("POD_NAME"); pod != "" || os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return pod
	}
	host, _ := os.Hostname()
	return host
}

// csiSnapshotTimeout is the default of spec.csiSnapshotTimeout. Velero has no flag for it either.
const csiSnapshotTimeout = 10 * time.Minute

func backupDefaults(o config.Options) backups.Defaults {
	return backups.Defaults{
		TTL: o.DefaultBackupTTL, ItemOperationTimeout: o.DefaultItemOperationTimeout,
		CSISnapshotTimeout: csiSnapshotTimeout, ResourceTimeout: o.ResourceTimeout,
		VolumeGroupSnapshotLabel: o.VolumeGroupSnapshotLabelKey, VolumesToFsBackup: o.DefaultVolumesToFSBackup,
		SnapshotMoveData: o.DefaultSnapshotMoveData, StorageLocation: o.DefaultBackupStorageLocation,
		SnapshotLocations: o.DefaultVolumeSnapshotLocations, GlobalVolumePolicies: o.GlobalVolumePoliciesConfigMap,
	}
}

// registrar adds controllers to a manager until one of them fails.
type registrar struct {
	mgr      ctrl.Manager
	log      hclog.Logger
	disabled []string
	err      error
}

// add adds a controller of the objects of one kind, which reconciles those with events that pass. watch, if not nil, is
// called for every change of such an object, even while the object is being reconciled.
func (r *registrar) add(
	name string, object client.Object, workers int, reconciler reconcile.Reconciler, watch handler.EventHandler,
	pass ...predicate.Predicate,
) {
	if r.err != nil || r.isDisabled(name) {
		return
	}
	b := r.builder(name, workers).For(object, builder.WithPredicates(pass...))
	if watch != nil {
		b = b.Watches(object, watch)
	}
	r.complete(name, b, reconciler)
}

// addQueue adds the controller of the queue, unless the controller of backups is disabled: the admitted backups would
// hold their slots for ever. It reports whether it has added it.
func (r *registrar) addQueue(q *backupqueue.Controller, wake <-chan event.GenericEvent) bool {
	if r.isDisabled(run.BackupQueueController) || !r.needs(run.BackupQueueController, run.BackupController) {
		return false
	}
	r.complete(run.BackupQueueController, q.Setup(r.builder(run.BackupQueueController, 1), wake), q)
	return true
}

// setUp adds a controller that says itself what it watches.
func (r *registrar) setUp(
	name string, workers int, setup func(*ctrl.Builder) *ctrl.Builder, reconciler reconcile.Reconciler,
) {
	if r.err == nil && !r.isDisabled(name) {
		r.complete(name, setup(r.builder(name, workers)), reconciler)
	}
}

// needs reports whether the controller without which another one is of no use is not disabled.
func (r *registrar) needs(name, other string) bool {
	if !slices.Contains(r.disabled, other) {
		return true
	}
	r.log.Warn(fmt.Sprintf("controller disabled, because controller %q is", other), "controller", name)
	return false
}

func (r *registrar) isDisabled(name string) bool {
	disabled := slices.Contains(r.disabled, name)
	if disabled {
		r.log.Warn("controller disabled", "controller", name)
	}
	return disabled
}

func (r *registrar) builder(name string, workers int) *ctrl.Builder {
	return control.NewBuilder(r.mgr, name, workers, NewLogr(r.log.Named(name)))
}

func (r *registrar) complete(name string, b *ctrl.Builder, reconciler reconcile.Reconciler) {
	if err := b.Complete(reconciler); err != nil {
		r.err = fmt.Errorf("set up controller %s: %w", name, err)
	}
}

// storeOf returns the objects of a kind in the cache of mgr, which must not be changed. The cache of one namespace has
// no access to them except by copies and by its events.
func storeOf(
	ctx context.Context, mgr ctrl.Manager, kind client.Object,
) (func(context.Context) (toolscache.Store, error), error) {
	informer, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("read %T from the cache: %w", kind, err)
	}
	store := toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc)
	events, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { _ = store.Add(object) }, // fails without metadata only
		UpdateFunc: func(_, object any) { _ = store.Update(object) },
		DeleteFunc: func(object any) { _ = store.Delete(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("follow %T in the cache: %w", kind, err)
	}
	return func(ctx context.Context) (toolscache.Store, error) {
		if !toolscache.WaitForCacheSync(ctx.Done(), events.HasSynced) {
			return nil, context.Cause(ctx)
		}
		return store, nil
	}, nil
}
