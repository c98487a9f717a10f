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
	"github.com/cleat-dev/cleat/server/snapshot"
)

// Repositories has the data of volumes.
type Repositories interface {
	// Forget has a data mover remove snapshots from the repository of the volumes of a namespace in a location. It is no error that they do
	// not exist. The error is ErrNoMover if the server does not have the mover.
	Forget(ctx context.Context, mover, location, namespace string, snapshots []string) error
}

// ErrNoMover is the error of a data mover that the server does not have.
var ErrNoMover = errors.New("the server does not have the data mover")

// Stored is the data of a volume: a snapshot in the repository of a namespace.
type Stored struct {
	Mover     string // that has stored it; "" for the engine kopia of Velero, which has none
	Namespace string
	ID        string // of the snapshot; "" if there is no data
	Of        string // the volume, for messages
}

// StoredByPods returns what PodVolumeBackups have stored.
func StoredByPods(loads []velerov1.PodVolumeBackup) (all []Stored) {
	for i := range loads {
		spec := &loads[i].Spec
		s := Stored{
			Namespace: spec.Pod.Namespace, ID: loads[i].Status.SnapshotID,
			Of: fmt.Sprintf("volume %s of pod %s/%s", spec.Volume, spec.Pod.Namespace, spec.Pod.Name),
		}
		if spec.UploaderType == velerov1.RepositoryTypeRestic || spec.UploaderType == "" && spec.RepoIdentifier != "" {
			s.Mover = velerov1.BuiltInDataMover
		}
		all = append(all, s)
	}
	return all
}

// StoredByUploads returns what DataUploads have stored.
func StoredByUploads(loads []velerov2alpha1.DataUpload) (all []Stored) {
	for i := range loads {
		spec := &loads[i].Spec
		all = append(all, storedOfClaim(spec.DataMover, spec.SourceNamespace, spec.SourcePVC, loads[i].Status.SnapshotID))
	}
	return all
}

// StoredByMovements returns what DataUploads have stored according to the file volumeinfo of a backup.
func StoredByMovements(infos []snapshot.VolumeInfo) (all []Stored) {
	for i := range infos {
		if moved := infos[i].DataMovement; infos[i].SnapshotDataMoved && moved != nil {
			all = append(all, storedOfClaim(moved.DataMover, infos[i].PVCNamespace, infos[i].PVCName, moved.SnapshotHandle))
		}
	}
	return all
}

func storedOfClaim(mover, namespace, claim, id string) Stored {
	if velerov1.IsVeleroDataMover(mover) {
		mover = ""
	}
	return Stored{Mover: mover, Namespace: namespace, ID: id, Of: fmt.Sprintf("volume claim %s/%s", namespace, claim)}
}

// place is a repository, as a data mover sees it.
type place struct{ mover, namespace string }

// compare orders repositories by namespace, then by mover.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.namespace, other.namespace), cmp.Compare(p.mover, other.mover))
}

// ForgetVolumes removes the data of volumes from their repositories, one repository after the other, and returns what was removed. One
// that fails does not keep the others. ForgetVolumes returns Failures if there are such. A deletion that did not succeed is repeated
// from the start.
//
// Data that Velero has stored with kopia stays, because there is no data mover for it. Data of a data mover that the server does not have
// stays too; the vendor of the data mover removes it. Neither is an error, because the backup could never be deleted then.
func ForgetVolumes(ctx context.Context, from Repositories, location string, data []Stored, log hclog.Logger) (forgotten []string, err error) {
	byPlace := map[place][]string{}
	for _, s := range data {
		at := place{s.Mover, s.Namespace}
		switch {
		case s.ID == "" || slices.Contains(byPlace[at], s.ID):
		case s.Mover == "":
			log.Warn("a snapshot of kopia stays in its repository, because there is no data mover for it; remove it with the program kopia",
				"snapshot", s.ID, "namespace", s.Namespace, "of", s.Of)
		default:
			byPlace[at] = append(byPlace[at], s.ID)
		}
	}
	var failures Failures
	for _, at := range slices.SortedFunc(maps.Keys(byPlace), place.compare) {
		if ctx.Err() != nil {
			return forgotten, context.Cause(ctx)
		}
		ids := byPlace[at]
		log := log.With("mover", at.mover, "namespace", at.namespace, "snapshots", ids)
		err := from.Forget(ctx, at.mover, location, at.namespace, ids)
		switch {
		case err == nil:
			log.Info("removed snapshots from a repository")
			for _, id := range ids {
				forgotten = append(forgotten, at.namespace+"/"+id)
			}
		case errors.Is(err, ErrNoMover) && at.mover != velerov1.BuiltInDataMover:
			log.Warn("snapshots are left to the vendor of their data mover, which the server does not have; its DeleteItemAction removes them, or add its plugin to the server", "error", err)
		default:
			log.Error("snapshots were not removed from a repository", "error", err)
			failures.add(fmt.Errorf("remove snapshots %q from the repository of namespace %s: %w", ids, at.namespace, err))
		}
	}
	if failures.Count > 0 {
		return forgotten, &failures
	}
	return forgotten, nil
}
