package app

import (
	"context"
	"fmt"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/backupsync"
	"github.com/cleat-dev/cleat/server/internal/control/deletions"
	"github.com/cleat-dev/cleat/server/internal/control/gc"
	"github.com/cleat-dev/cleat/server/internal/control/holds"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/snapshots"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// locations returns the controller that validates storage locations.
func (c *controllers) locations() *location.Reconciler {
	return &location.Reconciler{
		Client:          c.mgr.GetClient(),
		Opener:          c.opener,
		Log:             c.Log.Named("backup-storage-location"),
		Now:             time.Now,
		Renewed:         c.storesRenewed,
		Frequency:       c.Options.StoreValidationFrequency,
		DefaultLocation: c.Options.DefaultBackupStorageLocation,
		PublicPassword: func(ctx context.Context, l *velerov1.BackupStorageLocation) (bool, error) {
			return repopassword.PublicIn(ctx, c.live, l.Namespace, l.Name)
		},
	}
}

// deletions returns the controller that deletes backups with their data.
func (c *controllers) deletions() *deletions.Controller {
	deps := deletion.Deps{
		Resources: c.resources.Recent,
		CSI:       c.Options.HasFeature(config.EnableCSI),
		Roles:     c.host.HasRole,
	}
	return &deletions.Controller{
		Cluster:     c.cluster,
		Stores:      c.opener,
		StoreOutage: c.Options.StoreOutageTimeout,
		Plugins:     c.host,
		Engine:      func(ctx context.Context, req deletion.Request) error { return deletion.Run(ctx, deps, req) },
		Volumes:     c.volumes,
		SpoolDir:    c.scratch,
		Metrics:     c.metrics,
		Events:      c.events,
		Log:         c.Log.Named(run.BackupDeletionController),
		Now:         time.Now,
	}
}

// holds returns the controller that sets and ends legal holds.
func (c *controllers) holds() *holds.Controller {
	return &holds.Controller{
		Cluster: c.cluster,
		Stores:  c.opener,
		Events:  c.events,
		Log:     c.Log.Named(run.BackupHoldController),
	}
}

// garbageCollection returns the controller that requests the deletion of expired backups.
func (c *controllers) garbageCollection() *gc.Controller {
	return &gc.Controller{
		Cluster:   c.cluster,
		Frequency: c.Options.GarbageCollectionFrequency,
		Events:    c.events,
		Log:       c.Log.Named(run.GarbageCollectionController),
		Now:       time.Now,
	}
}

// backupSync returns the controller that synchronises the backups in the cluster with the object stores.
func (c *controllers) backupSync() (*backupsync.Controller, error) {
	cached, err := storeOf(c.lost, c.mgr, &velerov1.Backup{})
	if err != nil {
		return nil, err
	}
	log := c.Log.Named(run.BackupSyncController)
	// without a limit, as other requests of controllers
	api, err := kubeapi.New(c.mgr.GetConfig(), log, c.Options.APIOutageTimeout)
	if err != nil {
		return nil, err
	}
	return &backupsync.Controller{
		Cluster: c.cluster,
		API:     api,
		Stores:  c.opener,
		Backups: cached,
		Period:  c.Options.BackupSyncPeriod,
		Log:     log,
		Now:     time.Now,
	}, nil
}

// addSnapshots adds the controllers that remove snapshots which others have left behind, and that validate their
// locations. They cannot be disabled.
func (c *controllers) addSnapshots(r *registrar) {
	leftovers := &snapshots.Controller{
		Cluster: c.cluster,
		Stores:  c.opener,
		Volumes: c.volumes,
		Log:     c.Log.Named("snapshots"),
	}
	r.complete("snapshots", leftovers.Setup(r.builder("snapshots", lightWorkers)), leftovers)
	const locations = "volume-snapshot-location"
	r.complete(locations, r.builder(locations, 1).For(&velerov1.VolumeSnapshotLocation{}),
		&location.SnapshotLocations{Client: c.cluster, Opener: c.opener})
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
