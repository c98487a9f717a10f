package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// Repositories has the data of volumes.
type Repositories interface {
	// Forget has a data mover remove those snapshots from the repository of the volumes of a namespace in a location that
	// have all the tags, and returns the others. It is no error that they do not exist. The error is ErrNoMover if the
	// server does not have the mover.
	Forget(ctx context.Context, mover, location, namespace string, snapshots []string,
		tags map[string]string) (kept []string, err error)
}

// ErrNoMover is the error of a data mover that the server does not have.
var ErrNoMover = errors.New("the server does not have the data mover")

// Stored is the data of a volume: a snapshot in the repository of a namespace.
type Stored struct {
	Mover     string // that has stored it; "" for the engine kopia of Velero, which has none
	Namespace string
	ID        string // of the snapshot; "" if there is no data
	Of        string // the volume, for messages
	Proven    bool   // a load in this cluster has stored it
}

// StoredByPods returns what PodVolumeBackups have stored.
func StoredByPods(loads []velerov1.PodVolumeBackup) (all []Stored) {
	for i := range loads {
		spec := &loads[i].Spec
		all = append(all, Stored{
			Mover: velerov1.MoverOf(spec.Engine()), Namespace: spec.Pod.Namespace, ID: loads[i].Status.SnapshotID,
			Of: fmt.Sprintf("volume %s of pod %s/%s", spec.Volume, spec.Pod.Namespace, spec.Pod.Name),
		})
	}
	return all
}

// StoredByUploads returns what DataUploads have stored.
func StoredByUploads(loads []velerov2alpha1.DataUpload) (all []Stored) {
	for i := range loads {
		spec := &loads[i].Spec
		s := storedOfClaim(spec.DataMover, spec.SourceNamespace, spec.SourcePVC, loads[i].Status.SnapshotID)
		s.Proven = true // a bucket brings no DataUploads
		all = append(all, s)
	}
	return all
}

// StoredByMovements returns what DataUploads have stored according to the file volumeinfo of a backup.
func StoredByMovements(infos []volumes.VolumeInfo) (all []Stored) {
	for i := range infos {
		if moved := infos[i].DataMovement; infos[i].SnapshotDataMoved && moved != nil {
			all = append(all, storedOfClaim(moved.DataMover, infos[i].PVCNamespace, infos[i].PVCName, moved.SnapshotHandle))
		}
	}
	return all
}

func storedOfClaim(mover, namespace, claim, id string) Stored {
	if engine := velerov1.EngineOf(mover); engine != "" {
		mover = velerov1.MoverOf(engine)
	}
	return Stored{Mover: mover, Namespace: namespace, ID: id, Of: fmt.Sprintf("volume claim %s/%s", namespace, claim)}
}

// place is a repository, as a data mover sees it.
type place struct{ mover, namespace string }

// compare orders repositories by namespace, then by mover.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.namespace, other.namespace), cmp.Compare(p.mover, other.mover))
}

// ForgetVolumes removes the data of volumes from their repositories, one repository after the other, and returns what
// was removed. One that fails does not keep the others. ForgetVolumes returns Failures if there are such. A deletion
// that did not succeed is repeated from the start.
//
// Data that Velero has stored with kopia stays, because there is no data mover for it. Data of a data mover that the
// server does not have stays too; the vendor of the data mover removes it. Neither is an error, because the backup
// could never be deleted then.
//
// With tags, only snapshots that have them are removed, because the files that name the snapshots may be anybody's.
// Only of the built-in data mover is it known that it looks at them; of others, what is proven otherwise is removed.
// What stays is in kept.
func ForgetVolumes(
	ctx context.Context, from Repositories, location string, data []Stored, tags map[string]string, log hclog.Logger,
) (forgotten, kept []string, err error) {
	byPlace, proven := map[place][]string{}, map[place][]string{}
	for _, s := range data {
		if at := (place{s.Mover, s.Namespace}); s.Proven {
			proven[at] = append(proven[at], s.ID)
		}
	}
	for _, s := range data {
		at := place{s.Mover, s.Namespace}
		switch {
		case s.ID == "" || slices.Contains(byPlace[at], s.ID):
		case s.Mover == "":
			log.Warn("a snapshot of kopia stays in its repository, because there is no data mover for it; remove it with the "+
				"program kopia",
				"snapshot", s.ID, "namespace", s.Namespace, "of", s.Of)
		case tags != nil && !velerov1.IsBuiltInMover(s.Mover) && !slices.Contains(proven[at], s.ID):
			kept = append(kept, describeStored(at, s.ID))
		default:
			byPlace[at] = append(byPlace[at], s.ID)
		}
	}
	var failures Failures
	for _, at := range slices.SortedFunc(maps.Keys(byPlace), place.compare) {
		if ctx.Err() != nil {
			return forgotten, kept, context.Cause(ctx)
		}
		ids := byPlace[at]
		log := log.With("mover", at.mover, "namespace", at.namespace, "snapshots", ids)
		required := tags
		if !velerov1.IsBuiltInMover(at.mover) {
			required = nil
		}
		others, err := from.Forget(ctx, at.mover, location, at.namespace, ids, required)
		switch {
		case err == nil:
			log.Info("removed snapshots from a repository", "kept", others)
			for _, id := range ids {
				if slices.Contains(others, id) {
					kept = append(kept, describeStored(at, id))
				} else {
					forgotten = append(forgotten, at.namespace+"/"+id)
				}
			}
		case errors.Is(err, ErrNoMover) && !velerov1.IsBuiltInMover(at.mover):
			log.Warn("snapshots are left to the vendor of their data mover, which the server does not have; its "+
				"DeleteItemAction removes them, or add its plugin to the server", "error", err)
		default:
			log.Error("snapshots were not removed from a repository", "error", err)
			failures.add(fmt.Errorf("remove snapshots %q from the repository of namespace %s: %w", ids, at.namespace, err))
		}
	}
	if failures.Count > 0 {
		return forgotten, kept, &failures
	}
	return forgotten, kept, nil
}

func describeStored(at place, id string) string {
	return fmt.Sprintf("snapshot %q in the repository %s of namespace %q", id, at.mover, at.namespace)
}
