package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientdiscovery "k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/backup"
	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/controller/backupqueue"
	"github.com/cleat-dev/cleat/server/controller/backups"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/location"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/policy"
	"github.com/cleat-dev/cleat/server/restore"
	"github.com/cleat-dev/cleat/server/restore/plan"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// ServerConfig is what a server needs to know.
type Config struct {
	REST      *rest.Config
	Namespace string
	Options   config.Options // complete
	File      *config.File   // what --config names; its zero value when there is none
	Version   string
	BuiltIns  []framework.Registration
	// Self is the path of the server's binary and PluginArgs what it was given: plugins get the same.
	Self       string
	PluginArgs []string
	Log        hclog.Logger
}

// csiSnapshotTimeout is for backups that do not say it. It is no flag in Velero either.
const csiSnapshotTimeout = 10 * time.Minute

// resync is how often all objects are looked at again without a reason: a safety net.
const resync = 10 * time.Minute

// Serve runs the server until ctx ends; running operations then get their grace period. The order
// is: the namespace, the resource definitions, the plugins, the lead, what a former server left in
// progress, then the controllers.
func Serve(ctx context.Context, c Config) error {
	mgr, err := newManager(c)
	if err != nil {
		return err
	}
	discoverer, err := clientdiscovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	if err := checkNamespace(ctx, mgr.GetAPIReader(), c.Namespace); err != nil {
		return err
	}
	if err := checkDefinitions(ctx, discoverer); err != nil {
		return err
	}
	spans, stopSpans, err := tracer(ctx, c)
	if err != nil {
		return err
	}
	defer stopSpans()
	metrics := prometheus.NewRegistry()
	changed := make(chan event.GenericEvent, 1)
	host, err := NewHost(ctx, c, metrics, spans, func() {
		select {
		case changed <- event.GenericEvent{}:
		default: // the queue is going to decide anyway
		}
	})
	if err != nil {
		return err
	}
	defer host.Close()
	inForce, err := policy.New(c.File, policy.Deps{Host: host, Log: c.Log.Named("policies"), Metrics: metrics, Now: time.Now})
	if err != nil {
		return err
	}

	scratch, err := scratchDir(c.Options.ScratchDir)
	if err != nil {
		return err
	}
	opener := location.NewOpener(mgr.GetAPIReader(), host, filepath.Join(scratch, "credentials"))
	defer func() {
		if err := opener.Close(); err != nil {
			c.Log.Warn("credentials of backup storage locations could not be removed", "error", err)
		}
	}()

	lost, lose := context.WithCancel(context.WithoutCancel(ctx))
	defer lose()
	if err := registerAll(mgr, c, parts{lost: lost, host: host, changed: changed, policies: inForce, opener: opener, discoverer: discoverer, scratch: scratch, metrics: metrics}); err != nil {
		return err
	}
	endpoints := newEndpoints(c.Options, prometheus.Gatherers{metrics, ctrlmetrics.Registry}, mgr.GetCache(), c.Log)
	work := func(ctx context.Context) error {
		recovery := run.Recovery{
			Cluster: &run.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: c.Namespace},
			Log:     c.Log.Named(run.RecoveryController), Now: time.Now,
		}
		if err := recovery.Run(ctx); err != nil {
			return fmt.Errorf("finish off what a former server left in progress: %w", err)
		}
		c.Log.Info("server started", "version", c.Version, "namespace", c.Namespace)
		endpoints.working()
		if err := mgr.Start(ctx); err != nil {
			return fmt.Errorf("run the controllers: %w", err)
		}
		return nil
	}
	if c.Options.LeaderElect {
		leader := leadership{lose: lose, rest: c.REST, namespace: c.Namespace, lease: c.Options.LeaderElectLeaseDuration, log: c.Log.Named("leader-election")}
		controllers := work
		work = func(ctx context.Context) error { return leader.run(ctx, controllers) }
	}
	if err := endpoints.during(ctx, work); err != nil {
		return err
	}
	c.Log.Info("server stopped")
	return nil
}

// Scheme is that of the objects that controllers and commands read and write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), velerov1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return scheme, nil
}

func newManager(c Config) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	// What the controllers write is bounded by what there is to do, and a backup that gets its turn should not wait
	// behind --client-qps, which is for the objects that are backed up and restored.
	unlimited := rest.CopyConfig(c.REST)
	unlimited.QPS = -1
	mgr, err := ctrl.NewManager(unlimited, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{c.Namespace: {}},
			SyncPeriod:        new(resync),
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // see endpoints.go
		GracefulShutdownTimeout: new(c.Options.ShutdownGracePeriod + run.FinalWrites + 5*time.Second),
		Logger:                  NewLogr(c.Log.Named("controller-runtime")),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server %s: %w", c.REST.Host, err)
	}
	return mgr, nil
}

// checkNamespace makes sure that the server's namespace exists.
func checkNamespace(ctx context.Context, reader client.Reader, namespace string) error {
	err := reader.Get(ctx, client.ObjectKey{Name: namespace}, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s does not exist; create it, or name the server's namespace with --namespace or $VELERO_NAMESPACE", namespace)
	}
	if err != nil {
		return fmt.Errorf("get namespace %s: %w", namespace, err)
	}
	return nil
}

// checkDefinitions makes sure that the API server serves the custom resources.
func checkDefinitions(ctx context.Context, discoverer *clientdiscovery.DiscoveryClient) error {
	const install = `install the custom resource definitions with "cleat install --crds-only"`
	list, err := discoverer.ServerResourcesForGroupVersionWithContext(ctx, velerov1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not serve %s; %s", velerov1.SchemeGroupVersion, install)
	}
	if err != nil {
		return fmt.Errorf("discover the resources of %s: %w", velerov1.SchemeGroupVersion, err)
	}
	served := make(map[string]bool)
	for _, resource := range list.APIResources {
		served[resource.Kind] = true
	}
	var missing []string
	for _, kind := range []string{
		"Backup", "BackupStorageLocation", "DeleteBackupRequest", "DownloadRequest", "Restore",
		"Schedule", "ServerStatusRequest", "VolumeSnapshotLocation",
	} {
		if !served[kind] {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the API server does not serve %s of %s; %s", strings.Join(missing, ", "), velerov1.SchemeGroupVersion, install)
	}
	return nil
}

// scratchDir is a directory for temporary files that exists.
func scratchDir(configured string) (string, error) {
	dir := configured
	if dir == "" {
		dir = os.Getenv("VELERO_SCRATCH_DIR")
	}
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make the directory of temporary files, see --scratch-dir: %w", err)
	}
	return dir, nil
}

// parts are what Serve has made before the controllers.
type parts struct {
	lost       context.Context // see Parts.LostLead
	host       *pluginhost.Host
	changed    <-chan event.GenericEvent // tells of changes of the plugins
	policies   *policy.Policies
	opener     *location.Opener
	discoverer *clientdiscovery.DiscoveryClient
	scratch    string
	metrics    prometheus.Registerer
}

// registerAll adds all controllers to mgr.
func registerAll(mgr ctrl.Manager, c Config, p parts) error {
	o := c.Options
	metrics, err := metrics.New(p.metrics)
	if err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	resources := discovery.New(p.discoverer, c.Log.Named("discovery"))
	queueMetrics, err := backupqueue.NewMetrics(p.metrics)
	if err != nil {
		return fmt.Errorf("register the metrics of the queue: %w", err)
	}
	csi := slices.Contains(o.Features, "EnableCSI")
	backupDeps := backup.Deps{
		Config: c.REST, Discovery: resources, PageSize: o.ClientPageSize, Workers: o.ItemBlockWorkerCount, CSI: csi,
	}
	priorities, err := plan.ParsePriorities(o.RestoreResourcePriorities)
	if err != nil {
		return fmt.Errorf("--restore-resource-priorities: %w", err)
	}
	restoreDeps := restore.Deps{Config: c.REST, Discovery: resources, Options: restore.Options{
		Priorities: priorities, Workers: o.RestoreWorkers, ResourceTimeout: o.ResourceTimeout,
		TerminatingTimeout: o.TerminatingResourceTimeout, EnableCSI: csi,
	}}
	locations := &location.Reconciler{
		Client: mgr.GetClient(), Opener: p.opener, Log: c.Log.Named("backup-storage-location"), Now: time.Now,
		Frequency: o.StoreValidationFrequency, DefaultLocation: o.DefaultBackupStorageLocation,
		Observe: metrics.LocationValidated,
	}
	if err := locations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller backup-storage-location: %w", err)
	}
	return Register(mgr, Parts{
		Stores:  p.opener,
		Plugins: p.host,
		BackupEngine: func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error) {
			return backup.Run(ctx, backupDeps, req, archive)
		},
		RestoreEngine: func(ctx context.Context, req restore.Request) (*restore.Result, error) {
			return restore.Run(ctx, restoreDeps, req)
		},
		ServerVersion: p.discoverer.ServerVersionWithContext,
		ListPlugins:   func() []velerov1.PluginInfo { return listPlugins(p.host.Entries()) },
		ReportPlugins: reportPlugins(c, p.host),
		ReportPolicies: func() *serverreport.PolicyReport {
			return p.policies.Report(max(1, o.ConcurrentBackups))
		},
		Namespace: c.Namespace,
		Version:   c.Version,
		Defaults: backups.Defaults{
			TTL: o.DefaultBackupTTL, ItemOperationTimeout: o.DefaultItemOperationTimeout,
			CSISnapshotTimeout: csiSnapshotTimeout, ResourceTimeout: o.ResourceTimeout,
			VolumeGroupSnapshotLabel: o.VolumeGroupSnapshotLabelKey, VolumesToFsBackup: o.DefaultVolumesToFSBackup,
			SnapshotMoveData: o.DefaultSnapshotMoveData, StorageLocation: o.DefaultBackupStorageLocation,
			SnapshotLocations: o.DefaultVolumeSnapshotLocations,
		},
		Admission:          p.policies.Admission,
		ConcurrentBackups:  o.ConcurrentBackups,
		ConcurrentRestores: o.ConcurrentRestores,
		QueueSweep:         o.QueueSweep,
		QueueWake:          p.changed,
		QueueMetrics:       queueMetrics,
		Grace:              o.ShutdownGracePeriod,
		LostLead:           p.lost,
		SkipImmediately:    o.ScheduleSkipImmediately,
		Disabled:           o.Disabled(),
		LogOptions:         run.LogOptions{Dir: p.scratch, JSON: o.LogFormat == "json"},
		SpoolDir:           p.scratch,
		Metrics:            metrics,
		Log:                c.Log,
		Now:                time.Now,
	})
}
