package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/backups"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/schedules"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// queue returns the controller that admits backups.
func (c *controllers) queue(locations *location.Reconciler) (*backupqueue.Controller, error) {
	metrics, err := backupqueue.NewMetrics(c.registry)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the queue: %w", err)
	}
	return &backupqueue.Controller{
		Cluster:   c.cluster,
		Admission: c.policies.Admission,
		Limit:     max(1, c.Options.ConcurrentBackups),
		Sweep:     c.Options.QueueSweep,
		Locations: &backupqueue.Locations{
			Default: c.Options.DefaultBackupStorageLocation,
			Ask:     func(name string) { locations.Ask(client.ObjectKey{Namespace: c.Namespace, Name: name}) },
		},
		Exact:   queue.DefaultExact(),
		Pace:    backupqueue.DefaultPace(),
		Events:  c.events,
		Metrics: metrics,
		Log:     c.Log.Named(run.BackupQueueController),
		Now:     time.Now,
	}, nil
}

// backups returns the controller that runs backups. It admits all of them.
func (c *controllers) backups() *backups.Controller {
	return &backups.Controller{
		Cluster:       c.cluster,
		Runs:          c.backupRuns,
		Stores:        c.opener,
		StoreOutage:   c.Options.StoreOutageTimeout,
		Plugins:       c.host,
		Engine:        c.runBackup,
		Manifests:     c.policies.Manifests,
		ServerVersion: c.discoverer.ServerVersionWithContext,
		Defaults:      backupDefaults(c.Options),
		LogOptions:    c.runLogs,
		Logs:          c.logs,
		Journals:      c.journals,
		Monitor:       c.following.Monitor,
		Volumes:       c.volumes,
		Events:        c.events,
		Metrics:       c.metrics,
		Log:           c.Log.Named(run.BackupController),
		Now:           time.Now,
	}
}

func (c *controllers) backupDryRuns() *backups.DryRuns {
	unrecorded := *c.volumes
	unrecorded.Records = nil
	return &backups.DryRuns{
		Controller: &backups.Controller{
			Cluster:       c.cluster,
			Runs:          c.backupRuns,
			Stores:        c.opener,
			StoreOutage:   c.Options.StoreOutageTimeout,
			Plugins:       c.host,
			Engine:        c.runBackup,
			Manifests:     c.policies.DryRuns,
			Volumes:       &unrecorded,
			ServerVersion: c.discoverer.ServerVersionWithContext,
			Defaults:      backupDefaults(c.Options),
			LogOptions:    c.runLogs,
			Log:           c.Log.Named(run.BackupDryRunController),
			Now:           time.Now,
		},
		Harmless: c.File.Plugins.DryRun,
	}
}

// backupFinalizer returns the controller that completes backups whose operations have ended.
func (c *controllers) backupFinalizer() *backups.Finalizer {
	return &backups.Finalizer{
		Cluster:     c.cluster,
		Stores:      c.opener,
		Plugins:     c.host,
		Engine:      c.refreshBackup,
		Volumes:     c.volumes,
		SpoolDir:    c.scratch,
		Manifests:   c.policies.Manifests,
		References:  c.references,
		Sign:        c.signer().Sign,
		Logs:        c.logs,
		Metrics:     c.metrics,
		StoreOutage: c.Options.StoreOutageTimeout,
		Log:         c.Log.Named(run.BackupFinalizerController),
		Now:         time.Now,
	}
}

// schedules returns the controller that creates the backups of schedules.
func (c *controllers) schedules() *schedules.Controller {
	return &schedules.Controller{
		Cluster:         c.cluster,
		SkipImmediately: c.Options.ScheduleSkipImmediately,
		Events:          c.events,
		Metrics:         c.metrics,
		Log:             c.Log.Named(run.ScheduleController),
		Now:             time.Now,
	}
}

// runBackup is the engine of backups.
func (c *controllers) runBackup(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error) {
	return backup.Run(ctx, c.backupDeps(), req, archive)
}

// refreshBackup is the engine that reads items of a backup again after its operations have ended.
func (c *controllers) refreshBackup(
	ctx context.Context, req backup.Request, operations []operation.Operation, dir string,
) (*backup.Refreshed, error) {
	return backup.Refresh(ctx, c.backupDeps(), req, operations, dir)
}

func (c *controllers) backupDeps() backup.Deps {
	deps := backup.Deps{
		Config:      c.REST,
		Discovery:   c.resources,
		Keys:        c.keys,
		Roles:       c.host.HasRole,
		PageSize:    c.Options.ClientPageSize,
		Workers:     c.Options.ItemBlockWorkerCount,
		RetryFor:    c.Options.APIOutageTimeout,
		CSI:         c.Options.HasFeature(config.EnableCSI),
		AllVersions: c.Options.HasFeature(config.EnableAPIGroupVersions),
		References:  c.references,
		Uploader:    c.Options.UploaderType,
	}
	if deps.PageSize == 0 {
		deps.PageSize = -1 // whole lists
	}
	return deps
}

// csiSnapshotTimeout is the default of spec.csiSnapshotTimeout. Velero has no flag for it either.
const csiSnapshotTimeout = 10 * time.Minute

func backupDefaults(o config.Options) backups.Defaults {
	return backups.Defaults{
		TTL:                      o.DefaultBackupTTL,
		ItemOperationTimeout:     o.DefaultItemOperationTimeout,
		CSISnapshotTimeout:       csiSnapshotTimeout,
		ResourceTimeout:          o.ResourceTimeout,
		VolumeGroupSnapshotLabel: o.VolumeGroupSnapshotLabelKey,
		VolumesToFsBackup:        o.DefaultVolumesToFSBackup,
		SnapshotMoveData:         o.DefaultSnapshotMoveData,
		StorageLocation:          o.DefaultBackupStorageLocation,
		SnapshotLocations:        o.DefaultVolumeSnapshotLocations,
		GlobalVolumePolicies:     o.GlobalVolumePoliciesConfigMap,
	}
}
