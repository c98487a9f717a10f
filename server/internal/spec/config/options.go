package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Options are the settings of the server.
type Options struct {
	LogLevel  string // trace, debug, info, warn(ing), error
	LogFormat string // text or json

	PluginDir       string
	IsolateBuiltIns bool // run the built-in plugins as processes
	MetricsAddress  string
	ProfilerAddress string // empty means none
	DownloadAddress string // where files are offered that an object store cannot sign URLs of
	DownloadURL     string // at which users reach DownloadAddress; empty means that they cannot, and nothing is offered
	ScratchDir      string // of temporary files; empty means $VELERO_SCRATCH_DIR, or else the system's

	ClientQPS      float32
	ClientBurst    int
	ClientPageSize int // objects in one page of a list; 0 means all at once

	APIOutageTimeout   time.Duration // how long runs wait for an API server that does not respond
	StoreOutageTimeout time.Duration // how long runs wait for an object store that does not respond; 0 means not at all

	DisableControllers []string
	RestoreOnly        bool

	QueueSweep           time.Duration // how often the queue is looked at without a reason; 0 is never
	ConcurrentBackups    int
	ConcurrentRestores   int
	BackupAttempts       int // of a backup whose servers are killed or stopped
	RestoreAttempts      int // of a restore, likewise
	ItemBlockWorkerCount int
	RestoreWorkers       int
	ShutdownGracePeriod  time.Duration // for running operations

	LeaderElect              bool          // work only while this is the one server of its namespace
	LeaderElectLeaseDuration time.Duration // after which another server replaces one that does not renew its lease

	DefaultBackupStorageLocation   string
	StoreValidationFrequency       time.Duration
	BackupSyncPeriod               time.Duration
	DefaultVolumeSnapshotLocations map[string]string // provider to location
	DefaultBackupTTL               time.Duration
	DefaultItemOperationTimeout    time.Duration
	ItemOperationSyncFrequency     time.Duration
	GarbageCollectionFrequency     time.Duration
	FSBackupTimeout                time.Duration
	TerminatingResourceTimeout     time.Duration
	ResourceTimeout                time.Duration
	RestoreResourcePriorities      string // "" means the built-in order
	VolumeGroupSnapshotLabelKey    string
	DefaultVolumesToFSBackup       bool
	DefaultSnapshotMoveData        bool
	DefaultRepoMaintainFrequency   time.Duration
	UploaderType                   string
	MaxConcurrentK8sConnections    int
	DisableInformerCache           bool
	ScheduleSkipImmediately        bool
	BackupRepositoryConfigMap      string
	RepoMaintenanceJobConfigMap    string
	GlobalVolumePoliciesConfigMap  string
	DefaultModifiersConfigMap      string
	Features                       []string
}

// Defaults returns the settings of a server without flags.
func Defaults() Options {
	return Options{
		LogLevel:                     "info",
		LogFormat:                    "text",
		PluginDir:                    "/plugins",
		MetricsAddress:               ":8085",
		ProfilerAddress:              "localhost:6060",
		DownloadAddress:              ":8086",
		ClientQPS:                    100,
		ClientBurst:                  100,
		ClientPageSize:               500,
		APIOutageTimeout:             5 * time.Minute,
		StoreOutageTimeout:           5 * time.Minute,
		ConcurrentBackups:            1,
		QueueSweep:                   time.Minute,
		ConcurrentRestores:           1,
		BackupAttempts:               3,
		RestoreAttempts:              3,
		ItemBlockWorkerCount:         1,
		ShutdownGracePeriod:          20 * time.Second,
		LeaderElect:                  true,
		LeaderElectLeaseDuration:     15 * time.Second,
		DefaultBackupStorageLocation: "default",
		StoreValidationFrequency:     time.Minute,
		BackupSyncPeriod:             time.Minute,
		DefaultBackupTTL:             30 * 24 * time.Hour,
		DefaultItemOperationTimeout:  4 * time.Hour,
		ItemOperationSyncFrequency:   10 * time.Second,
		GarbageCollectionFrequency:   time.Hour,
		FSBackupTimeout:              4 * time.Hour,
		TerminatingResourceTimeout:   10 * time.Minute,
		ResourceTimeout:              10 * time.Minute,
		VolumeGroupSnapshotLabelKey:  "velero.io/volume-group",
		UploaderType:                 string(velerov1.DefaultUploader),
		MaxConcurrentK8sConnections:  30,
	}
}

// AddFlags adds a flag for every setting, with Velero's name where Velero has the flag. The current values are the
// defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.LogLevel, "log-level", o.LogLevel,
		"lines below this level are not logged: trace, debug, info, warning or error")
	flags.StringVar(&o.LogFormat, "log-format", o.LogFormat, "format of the log: text or json")
	flags.StringVar(&o.PluginDir, "plugin-dir", o.PluginDir, "directory of the plugin binaries")
	flags.BoolVar(&o.IsolateBuiltIns, "isolate-built-ins", o.IsolateBuiltIns,
		"run the built-in plugins as processes of their own, as external ones are")
	flags.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress,
		"address of /metrics, /healthz and /readyz; 0 for none")
	flags.StringVar(&o.ProfilerAddress, "profiler-address", o.ProfilerAddress, "address of /debug/pprof; empty for none")
	flags.StringVar(&o.DownloadURL, "download-url", o.DownloadURL,
		"URL at which users reach --download-address, like https://velero.example.com: the server then offers files of "+
			"backups itself where an object store cannot sign URLs; empty for not")
	flags.StringVar(&o.DownloadAddress, "download-address", o.DownloadAddress,
		"address at which the server offers files of backups if there is a --download-url")
	flags.StringVar(&o.ScratchDir, "scratch-dir", o.ScratchDir,
		"directory of temporary files; empty for $VELERO_SCRATCH_DIR, or else the system's")
	flags.Float32Var(&o.ClientQPS, "client-qps", o.ClientQPS,
		"requests per second to the API server; negative for no limit; those of restores are limited by --restore-workers "+
			"instead")
	flags.IntVar(&o.ClientBurst, "client-burst", o.ClientBurst,
		"requests to the API server above client-qps for a short time")
	flags.IntVar(&o.ClientPageSize, "client-page-size", o.ClientPageSize,
		"objects in one page of a list; 0 for all at once")
	flags.DurationVar(&o.APIOutageTimeout, "api-outage-timeout", o.APIOutageTimeout,
		"how long backups and restores in progress wait for an API server that does not respond, before they fail")
	flags.DurationVar(&o.StoreOutageTimeout, "store-outage-timeout", o.StoreOutageTimeout,
		"how long backups, restores, deletions and loads try again what an object store fails to do, before they fail, or end "+
			"without what it refuses; 0 for not at all")
	flags.StringSliceVar(&o.DisableControllers, "disable-controllers", o.DisableControllers, "controllers not to run")
	flags.BoolVar(&o.RestoreOnly, "restore-only", o.RestoreOnly,
		"run in a mode where only restores are allowed; use --disable-controllers")
	flags.IntVar(&o.ConcurrentBackups, "concurrent-backups", o.ConcurrentBackups,
		"backups that run at once; less than 1 means 1")
	flags.IntVar(&o.ConcurrentRestores, "concurrent-restores", o.ConcurrentRestores,
		"restores that run at once, beside the backups; less than 1 means 1")
	flags.IntVar(&o.BackupAttempts, "backup-attempts", o.BackupAttempts,
		"how often a backup is started in all if the server is killed or stopped while it is in progress; 1 marks it as "+
			"Failed, as Velero does")
	flags.IntVar(&o.RestoreAttempts, "restore-attempts", o.RestoreAttempts,
		"how often a restore is started in all if the server is killed or stopped while it is in progress; 1 marks it as "+
			"Failed, as Velero does")
	flags.DurationVar(&o.QueueSweep, "queue-sweep", o.QueueSweep,
		"how often to process the queue of backups without a trigger, as a safety net; 0 for never")
	flags.IntVar(&o.ItemBlockWorkerCount, "item-block-worker-count", o.ItemBlockWorkerCount,
		"item blocks of one backup that are at work at once, if they have hooks or actions that take one call at a time; "+
			"less than 1 means 1; it does not bound the calls of actions that take several, as those built on the framework "+
			"do: plugins.concurrency does")
	flags.IntVar(&o.RestoreWorkers, "restore-workers", o.RestoreWorkers,
		"items of one restore that are written at once; 0 for as many as the API server writes fastest, up to 64, fewer "+
			"when it is too busy")
	flags.DurationVar(&o.ShutdownGracePeriod, "shutdown-grace-period", o.ShutdownGracePeriod,
		"how long running backups and restores may go on once the server has to stop; then the next server takes them up, "+
			"or they are marked as Failed if no attempt is left; asynchronous operations of plugins are not cancelled")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"work only while no other server of the namespace does; others stand by")
	flags.DurationVar(&o.LeaderElectLeaseDuration, "leader-elect-lease-duration", o.LeaderElectLeaseDuration,
		"how long after its last renewal of the lease a leader is replaced by another server; whole seconds")
	flags.StringVar(&o.DefaultBackupStorageLocation, "default-backup-storage-location", o.DefaultBackupStorageLocation,
		"backup storage location to use when none is marked as the default")
	flags.DurationVar(&o.StoreValidationFrequency, "store-validation-frequency", o.StoreValidationFrequency,
		"how often to validate a backup storage location that does not set it; 0 for never")
	flags.DurationVar(&o.BackupSyncPeriod, "backup-sync-period", o.BackupSyncPeriod,
		"how often to look for new backups in a backup storage location that does not set it; 0 for never")
	flags.Var(NewPairs(&o.DefaultVolumeSnapshotLocations), "default-volume-snapshot-locations",
		"default volume snapshot location of each provider, as PROVIDER:LOCATION,...")
	flags.DurationVar(&o.DefaultBackupTTL, "default-backup-ttl", o.DefaultBackupTTL,
		"how long to keep a backup that does not set it")
	flags.DurationVar(&o.DefaultItemOperationTimeout, "default-item-operation-timeout", o.DefaultItemOperationTimeout,
		"how long asynchronous operations of plugins may take unless the backup or restore sets it")
	flags.DurationVar(&o.ItemOperationSyncFrequency, "item-operation-sync-frequency", o.ItemOperationSyncFrequency,
		"how often to poll asynchronous operations of plugins")
	flags.DurationVar(&o.GarbageCollectionFrequency, "garbage-collection-frequency", o.GarbageCollectionFrequency,
		"how often to delete expired backups")
	flags.DurationVar(&o.FSBackupTimeout, "fs-backup-timeout", o.FSBackupTimeout,
		"how long file system backups of pod volumes may take")
	flags.DurationVar(&o.TerminatingResourceTimeout, "terminating-resource-timeout", o.TerminatingResourceTimeout,
		"how long a restore waits for namespaces and volumes that are being deleted")
	flags.DurationVar(&o.ResourceTimeout, "resource-timeout", o.ResourceTimeout,
		"how long to wait for resources where nothing else is set")
	flags.StringVar(&o.RestoreResourcePriorities, "restore-resource-priorities", o.RestoreResourcePriorities,
		"order of resources in a restore, as HIGH1,HIGH2,-,LOW1,LOW2; empty for the built-in order")
	flags.StringVar(&o.VolumeGroupSnapshotLabelKey, "volume-group-snapshot-label-key", o.VolumeGroupSnapshotLabelKey,
		"label of volume claims that are snapshotted as a group")
	flags.BoolVar(&o.DefaultVolumesToFSBackup, "default-volumes-to-fs-backup", o.DefaultVolumesToFSBackup,
		"back up all volumes of pods from the file system unless the backup says otherwise")
	flags.BoolVar(&o.DefaultSnapshotMoveData, "default-snapshot-move-data", o.DefaultSnapshotMoveData,
		"move the data of snapshots to the backup storage unless the backup says otherwise")
	flags.DurationVar(&o.DefaultRepoMaintainFrequency, "default-repo-maintain-frequency", o.DefaultRepoMaintainFrequency,
		"how often to maintain backup repositories that do not say it; 0 for every hour with kopia, and every week with "+
			"restic")
	flags.StringVar(&o.UploaderType, "uploader-type", o.UploaderType,
		"engine of the repositories for volumes of new backups: kopia or restic; the node agents need its data mover")
	flags.IntVar(&o.MaxConcurrentK8sConnections, "max-concurrent-k8s-connections", o.MaxConcurrentK8sConnections,
		"connections to the API server of one backup for CSI snapshots")
	flags.BoolVar(&o.DisableInformerCache, "disable-informer-cache", o.DisableInformerCache,
		"read objects that exist already from the API server in a restore")
	flags.BoolVar(&o.ScheduleSkipImmediately, "schedule-skip-immediately", o.ScheduleSkipImmediately,
		"skip the first backup of a schedule that is due at once")
	flags.StringVar(&o.BackupRepositoryConfigMap, "backup-repository-configmap", o.BackupRepositoryConfigMap,
		"ConfigMap with the settings of backup repositories, by their types")
	flags.StringVar(&o.RepoMaintenanceJobConfigMap, "repo-maintenance-job-configmap", o.RepoMaintenanceJobConfigMap,
		"ConfigMap with the settings of the jobs that maintain backup repositories")
	flags.StringVar(&o.GlobalVolumePoliciesConfigMap, "global-backup-volume-policies-configmap",
		o.GlobalVolumePoliciesConfigMap, "ConfigMap with volume policies that apply to every backup, after its own")
	flags.StringVar(&o.DefaultModifiersConfigMap, "default-resource-modifier-configmap", o.DefaultModifiersConfigMap,
		"ConfigMap with the resource modifiers of every restore that names none")
	flags.StringSliceVar(&o.Features, "features", o.Features, "features to switch on: EnableCSI, EnableAPIGroupVersions")

	addFlagsWithoutEffect(flags)
}

// AddAgentFlags adds the flags of the settings that a node agent has in common with a server.
func (o *Options) AddAgentFlags(flags *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(all)
	for _, name := range []string{
		"log-level", "log-format", "plugin-dir", "isolate-built-ins", "metrics-address", "profiler-address", "scratch-dir",
		"api-outage-timeout", "store-outage-timeout", "resource-timeout", "features", "backup-repository-configmap",
	} {
		flags.AddFlag(all.Lookup(name))
	}
}

// Complete raises values to their minimum and validates all settings. Its error lists all mistakes.
func (o *Options) Complete() error {
	o.ConcurrentBackups = max(1, o.ConcurrentBackups)
	o.ConcurrentRestores = max(1, o.ConcurrentRestores)
	o.ItemBlockWorkerCount = max(1, o.ItemBlockWorkerCount)
	o.RestoreWorkers = max(0, o.RestoreWorkers)
	o.Features = slices.DeleteFunc(o.Features, func(f string) bool { return strings.TrimSpace(f) == "" })
	var errs []error
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			errs = append(errs, fmt.Errorf("--%s %q: want one of %s", flag, value, strings.Join(allowed, ", ")))
		}
	}
	oneOf("log-level", strings.ToLower(o.LogLevel), "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic")
	oneOf("log-format", o.LogFormat, "text", "json")
	oneOf("uploader-type", o.UploaderType, "kopia", "restic")
	for flag, d := range map[string]time.Duration{
		"default-backup-ttl":             o.DefaultBackupTTL,
		"default-item-operation-timeout": o.DefaultItemOperationTimeout,
		"api-outage-timeout":             o.APIOutageTimeout,
		"resource-timeout":               o.ResourceTimeout,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s %s: want more than 0", flag, d))
		}
	}
	if o.StoreOutageTimeout < 0 {
		errs = append(errs, fmt.Errorf("--store-outage-timeout %s: want 0 or more", o.StoreOutageTimeout))
	}
	if _, err := o.DownloadBase(); err != nil {
		errs = append(errs, err)
	}
	for flag, n := range map[string]int{"backup-attempts": o.BackupAttempts, "restore-attempts": o.RestoreAttempts} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("--%s %d: want 1 or more", flag, n))
		}
	}
	if o.ClientPageSize < 0 {
		errs = append(errs, fmt.Errorf("--client-page-size %d: want 0 or more", o.ClientPageSize))
	}
	if o.QueueSweep < 0 {
		errs = append(errs, fmt.Errorf("--queue-sweep %s: want 0 or more", o.QueueSweep))
	}
	if o.ShutdownGracePeriod < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-grace-period %s: want 0 or more", o.ShutdownGracePeriod))
	}
	if o.LeaderElectLeaseDuration < time.Second || o.LeaderElectLeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration %s: want whole seconds, at least 1s",
			o.LeaderElectLeaseDuration))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// DownloadBase returns the URL of DownloadURL, or nil if it is empty.
func (o *Options) DownloadBase() (*url.URL, error) {
	if o.DownloadURL == "" {
		return nil, nil //nolint:nilnil // no URL is a valid setting
	}
	base, err := url.Parse(o.DownloadURL)
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.User != nil ||
		base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("--download-url %q: want a URL like https://velero.example.com", o.DownloadURL)
	}
	return base, nil
}

// Disabled returns the controllers not to run.
func (o *Options) Disabled() []string {
	disabled := slices.Clone(o.DisableControllers)
	if o.RestoreOnly {
		disabled = append(disabled, "backup", "backup-deletion", "backup-dry-run", "backup-finalizer", "backup-operations",
			"gc", "schedule")
	}
	return disabled
}
