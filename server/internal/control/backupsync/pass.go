package backupsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
)

// If more than this number of Backups is missing, and more than this part of all, a pass lists the files of the bucket
// instead of checking for the PodVolumeBackups of each: a page of such a list has the files of some hundred backups.
const (
	manyMissing     = 100
	largePartOfThem = 20 // 1/20
)

// settled is how long ago a backup must have ended so that a list certainly has all its files, even if the clocks of
// clusters differ.
const settled = time.Hour

// atOnce is the number of backups that are created or deleted at once. Half of them wait for the bucket, the others for
// the API server.
const atOnce = 32

// largeMetadata is the size in bytes from which velero-backup.json files are decoded one at a time.
const largeMetadata = 256 << 10

// pass is one pass over one bucket.
type pass struct {
	*Controller
	location *velerov1.BackupStorageLocation
	objects  *store.Store
	skipped  *skipped
	log      hclog.Logger
	began    time.Time
	volumes  map[string]bool // whether listed backups have PodVolumeBackups; nil without a list

	large            sync.Mutex // held for steps that need much memory
	created, deleted atomic.Int64
}

// state determines what a pass may do with a Backup.
type state int

const (
	others     state = iota // of another location, or not ended
	ended                   // it has files
	incomplete              // its PodVolumeBackups are not all created
)

// sync makes one pass. It can be repeated, also after half of it.
func (r *Controller) sync(ctx context.Context, location *velerov1.BackupStorageLocation, known *memory) error {
	began, now := time.Now(), r.Now()
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return err
	}
	names, foreign, err := objects.ListBackups(ctx)
	if err != nil {
		return err
	}
	// A Backup that appears or ends meanwhile is checked again before it is created or removed.
	cluster, err := r.Backups(ctx)
	if err != nil {
		return fmt.Errorf("list the Backups: %w", err)
	}
	p := &pass{Controller: r, location: location, objects: objects, skipped: &known.skipped,
		log: r.Log.With("location", location.Name), began: now}
	p.skipped.begin(names, foreign)
	var missing []string
	var unfinished []*velerov1.Backup
	found := 0
	for _, name := range names {
		b := r.find(cluster, name)
		switch {
		case b == nil && p.skipped.isDue(name, now):
			missing = append(missing, name)
		case b != nil:
			found++
			p.skipped.drop(name)
			if b.Annotations[incompleteAnnotation] != "" && stateOf(b, location.Name) == incomplete {
				unfinished = append(unfinished, b)
			}
		}
	}
	if len(missing) > max(manyMissing, len(names)/largePartOfThem) {
		if p.volumes, err = objects.ListPodVolumeBackups(ctx); err != nil {
			p.log.Debug("the files of the bucket cannot be listed at once, each backup is asked for its PodVolumeBackups",
				"error", err)
		}
	}
	err = each(ctx, p.log, missing, func(ctx context.Context, name string) error {
		err := panics.Catch(p.log, func() error { return p.bring(ctx, name) })
		if errors.Is(err, panics.Err) {
			p.skipped.add(name, invalid, err, p.Now())
			return nil
		}
		return err
	})
	if err == nil {
		err = each(ctx, p.log, unfinished,
			func(ctx context.Context, b *velerov1.Backup) error { return p.bringVolumes(ctx, b.Name, b.UID) })
	}
	if err == nil {
		err = each(ctx, p.log, r.orphans(cluster.List(), location.Name, names, found), p.remove)
	}
	if created, deleted := p.created.Load(), p.deleted.Load(); created+deleted > 0 {
		p.log.Info("the cluster follows the bucket", "created", created, "deleted", deleted)
	}
	p.skipped.report(p.log)
	p.log.Debug("compared the bucket with the cluster", "directories", len(names), "took", time.Since(began), "error", err)
	return err
}

// find returns the Backup of that name in the cache, or nil if there is none. The caller must not change it.
func (r *Controller) find(cluster cache.Store, name string) *velerov1.Backup {
	object, _, err := cluster.GetByKey(r.Namespace + "/" + name)
	if err != nil {
		return nil // an index in memory has no errors
	}
	b, _ := object.(*velerov1.Backup)
	return b
}

func stateOf(b *velerov1.Backup, location string) state {
	phase := run.BackupPhase(b)
	switch {
	case b.Spec.StorageLocation != location || b.Labels[velerov1.StorageLocationLabel] != velerov1.ValidLabelValue(
		location,
	),
		b.DeletionTimestamp != nil, velerov1.IsDryRun(b):
		return others
	case b.Annotations[incompleteAnnotation] != "":
		return incomplete
	case phase.Restorable():
		return ended
	default:
		return others
	}
}

// orphans returns the Backups of a location that have ended and whose directory no longer exists. found is the number
// of all Backups that have a directory in names.
func (r *Controller) orphans(all []any, location string, names []string, found int) (gone []*velerov1.Backup) {
	if found == len(all) {
		return nil
	}
	for _, object := range all {
		b, ok := object.(*velerov1.Backup)
		if !ok || b.Namespace != r.Namespace {
			continue
		}
		if _, found := slices.BinarySearch(names, b.Name); !found && stateOf(b, location) != others {
			gone = append(gone, b)
		}
	}
	return gone
}

// each calls f for all names, several at once, until the first error.
func each[T any](ctx context.Context, log hclog.Logger, all []T, f func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range all {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return panics.Catch(log, func() error { return f(ctx, one) }) })
	}
	return group.Wait()
}

// bring creates the Backup of one directory, unless there is a reason to skip it. An error ends the pass.
func (p *pass) bring(ctx context.Context, name string) error {
	metadata, err := p.objects.MetadataOfListed(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		p.skipped.add(name, noMetadata, nil, p.Now())
		return nil
	case err != nil && p.objects.Validate(ctx) != nil: // the error does not concern this file
		return err
	case err != nil:
		p.skipped.add(name, unreadable, err, p.Now())
		return nil
	}
	if len(metadata) > largeMetadata {
		p.large.Lock()
		defer p.large.Unlock()
	}
	b, why, err := p.backup(ctx, name, metadata)
	if err != nil {
		p.skipped.add(name, why, err, p.Now())
		return nil
	}
	lacks := false
	if !p.hasNoVolumes(b) {
		volumes, err := p.countVolumes(ctx, name)
		lacks = volumes > 0 || err != nil
	}
	if lacks {
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, incompleteAnnotation, "PodVolumeBackups")
	}
	uid, err := p.create(ctx, b)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil && kubeapi.Transient(err), ctx.Err() != nil:
		return fmt.Errorf("create Backup %s: %w", name, err)
	case err != nil:
		p.skipped.add(name, refused, err, p.Now())
		return nil
	}
	p.skipped.drop(name)
	p.created.Add(1)
	p.log.Debug("created a Backup for the files in the bucket", "backup", name)
	if !lacks {
		return nil
	}
	return p.bringVolumes(ctx, name, uid)
}

// hasNoVolumes reports whether a list of the bucket shows that a backup has no PodVolumeBackups. A backup that has
// ended recently may have been listed before all its files existed.
func (p *pass) hasNoVolumes(b *storedBackup) bool {
	has, listed := p.volumes[b.Name]
	return listed && !has && b.ended != nil && p.began.Sub(b.ended.Time) > settled
}

// remove deletes a Backup whose files no longer exist, unless the Backup has changed.
func (p *pass) remove(ctx context.Context, known *velerov1.Backup) error {
	name := known.Name
	if stored, err := p.objects.BackupExists(ctx, name); err != nil || stored {
		return err // the list was not complete
	}
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
	err := p.Delete(ctx, b, client.Preconditions{UID: &known.UID, ResourceVersion: &known.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete Backup %s, whose files no longer exist: %w", name, err)
	}
	p.deleted.Add(1)
	p.log.Info("deleted a Backup, because its files are no longer in the bucket", "backup", name)
	return nil
}
