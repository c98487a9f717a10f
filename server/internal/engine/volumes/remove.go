package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// maxNamed is the length of the name of something that a file of a backup names, in bytes.
const maxNamed = 200

// Proof says what certainly belongs to a backup. Whoever can write to the bucket can write files that name snapshots of
// others.
type Proof interface {
	// Holds reports whether a file with this digest is one of the server.
	Holds(kind velerov1.DownloadTargetKind, digest string) bool
	// Tags returns those that snapshots in repositories must have; nil for none.
	Tags() map[string]string
}

// Removal describes the backup whose volumes are removed.
type Removal struct {
	Backup  *velerov1.Backup
	Objects *store.Store
	Loads   bool // there may be loads in the cluster that the files do not have
	Proof   Proof
}

// Removed is the outcome of a removal.
type Removed struct {
	// Snapshots are those of locations whose deletion was requested, and those in repositories that were removed.
	Snapshots []string
	// Kept describes what the files name and the proof does not cover.
	Kept []string
	// Unread says which files of the backup are damaged, so that it is not known what they name.
	Unread []string
	// Failed has an error for each snapshot or repository from which something was not removed. It does not keep the
	// others from their removal.
	Failed []error
}

// Remove deletes the snapshots of a backup, and the data of its volumes in repositories. An error means that it is not
// known what there is. A removal that did not succeed is repeated from the start.
func (h *Hub) Remove(ctx context.Context, r Removal, log hclog.Logger) (done Removed, err error) {
	err = h.removeSnapshots(ctx, r, &done, log)
	data, dataErr := h.storedBy(ctx, r.Backup, r.Objects, r.Loads, &done, log)
	if dataErr != nil {
		dataErr = fmt.Errorf("read the data of which volumes has to be removed from repositories: %w", dataErr)
	} else {
		dataErr = h.forget(ctx, r.Backup.Spec.StorageLocation, data, r.Proof.Tags(), &done, log)
	}
	if err == nil {
		err = dataErr
	}
	return done, err
}

// isUnread notes a file that is damaged, which reading it again does not change.
func (r *Removed) isUnread(err error) bool {
	if !errors.Is(err, store.ErrDamaged) {
		return false
	}
	r.Unread = append(r.Unread, shorten.Text(err.Error(), maxNamed))
	return true
}

// removeSnapshots has the plugins of VolumeSnapshotLocations delete the snapshots of a backup, one after the other.
func (h *Hub) removeSnapshots(ctx context.Context, r Removal, done *Removed, log hclog.Logger) error {
	const kind = velerov1.DownloadTargetKindBackupVolumeSnapshots
	all, digest, err := store.DecodeHashedList[[]*Snapshot](ctx, r.Objects, kind, r.Backup.Name)
	if done.isUnread(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which snapshots have to be deleted: %w", err)
	}
	all = slices.DeleteFunc(all, func(s *Snapshot) bool { return s.Status.ProviderSnapshotID == "" }) // never taken
	if !r.Proof.Holds(kind, digest) {
		for _, s := range all {
			done.Kept = append(done.Kept, fmt.Sprintf("snapshot %q of VolumeSnapshotLocation %q",
				shorten.Text(s.Status.ProviderSnapshotID, maxNamed), shorten.Text(s.Spec.Location, maxNamed)))
		}
		return nil
	}
	for _, s := range all {
		done.Snapshots = append(done.Snapshots, s.Spec.Location+"/"+s.Status.ProviderSnapshotID)
	}
	for _, s := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		id, pv := s.Status.ProviderSnapshotID, s.Spec.PersistentVolumeName
		log := log.With("snapshot", id, "location", s.Spec.Location, "persistentVolume", pv)
		if err := h.deleteSnapshot(ctx, s); err != nil {
			log.Error("a snapshot was not deleted", "error", err)
			done.Failed = append(done.Failed, fmt.Errorf("error deleting snapshot %s of persistent volume %s: %w", id, pv, err))
			continue
		}
		log.Info("deleted a snapshot")
	}
	return nil
}

// forget removes the data of volumes from their repositories in a location, one repository after the other.
//
// Data of an engine for which there is no data mover stays. Data of a vendor's data mover that the server does not have
// stays too; the vendor of the data mover removes it. Neither is an error, because the backup could never be deleted
// then.
//
// With tags, only snapshots that have them are removed, because the files that name the snapshots may be anybody's.
// Only of built-in data movers is it known that they look at them; of others, what is proven otherwise is removed.
func (h *Hub) forget(
	ctx context.Context, location string, data []stored, tags map[string]string, done *Removed, log hclog.Logger,
) error {
	keep := func(at place, id string) {
		done.Kept = append(done.Kept, "data "+shorten.Text(at.name(id), maxNamed))
	}
	byPlace, proven := map[place][]string{}, map[place][]string{}
	for i := range data {
		if s := &data[i]; s.proven {
			proven[s.place] = append(proven[s.place], s.id)
		}
	}
	for i := range data {
		s := &data[i]
		switch {
		case s.id == "" || slices.Contains(byPlace[s.place], s.id):
		case s.mover == "":
			log.Warn("a snapshot stays in its repository, because there is no data mover for its engine",
				"snapshot", s.id, "namespace", s.namespace, "of", s.of)
		case tags != nil && !velerov1.IsBuiltInMover(s.mover) && !slices.Contains(proven[s.place], s.id):
			keep(s.place, s.id)
		default:
			byPlace[s.place] = append(byPlace[s.place], s.id)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(byPlace), place.compare) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ids, required, builtIn := byPlace[at], tags, velerov1.IsBuiltInMover(at.mover)
		if !builtIn {
			required = nil
		}
		log := log.With("mover", at.mover, "namespace", at.namespace, "snapshots", ids)
		others, err := h.Repositories.Forget(ctx, at.mover, location, at.namespace, ids, required)
		switch {
		case err == nil:
			log.Info("removed snapshots from a repository", "kept", others)
			for _, id := range ids {
				if slices.Contains(others, id) {
					keep(at, id)
				} else {
					done.Snapshots = append(done.Snapshots, at.namespace+"/"+id)
				}
			}
		case errors.Is(err, ErrNoMover) && !builtIn:
			log.Warn("snapshots are left to the vendor of their data mover, which the server does not have; its "+
				"DeleteItemAction removes them, or add its plugin to the server", "error", err)
		default:
			log.Error("snapshots were not removed from a repository", "error", err)
			done.Failed = append(done.Failed,
				fmt.Errorf("remove snapshots %q from the repository of namespace %s: %w", ids, at.namespace, err))
		}
	}
	return nil
}
