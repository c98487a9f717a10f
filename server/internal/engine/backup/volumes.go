package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// Reasons why the data of a volume is not backed up, in the form of Velero's file volumeinfo: the method that does not
// apply, and the reason.
const (
	notSelected = "volumeSnapshot: not satisfy the criteria for VolumePolicy or the legacy snapshot way;"
	noPlugin    = "volumeSnapshot: no applicable volumesnapshotter found;"
	noClaim     = "csiSnapshot: its claim is not in the backup;"
	noPod       = "podvolume: no running pod in the backup that mounts it could be asked for its files;"
)

// snapshotsGroup is the group of CSI snapshots.
const snapshotsGroup = "snapshot.storage.k8s.io"

// volumeState is the state of the data of persistent volumes in a run.
type volumeState struct {
	infos volumes.Infos

	mu      sync.Mutex
	without int                      // volumes whose data is requested but not backed up
	byFiles map[string]*claimsOfPods // by namespace
	// awaiting lists the volumes that pods are to back up. takenBy has the first pod of each claim, by
	// "namespace/name".
	awaiting []*corev1.PersistentVolume
	takenBy  map[string]string
	running  map[framework.ResourceIdentifier]string // operations on volumes of pods
	hasCSI   bool                                    // an action takes snapshots of CSI volumes
	snapshot bool                                    // the spec requests snapshots, or leaves it open
}

// claimsOfPods are the claims of a namespace for which pods request file system backups.
type claimsOfPods struct {
	once  sync.Once
	names map[string]bool
	err   error
}

func newVolumeState(req Request, deps Deps) *volumeState {
	wanted := req.Backup.Spec.SnapshotVolumes
	return &volumeState{
		infos: volumes.Infos{DataMover: velerov1.DataMoverFor(req.Backup.Spec.DataMover,
			cmp.Or(velerov1.RepositoryType(deps.Uploader), velerov1.DefaultUploader))},
		byFiles: map[string]*claimsOfPods{}, takenBy: map[string]string{}, running: map[framework.ResourceIdentifier]string{},
		snapshot: wanted == nil || *wanted,
		hasCSI: deps.CSI && slices.ContainsFunc(req.Actions,
			func(a backupitemaction.Action) bool { return deps.Roles.Has(a.Name(), framework.RoleClaimSnapshots) }),
	}
}

// backUpVolume takes a snapshot of a persistent volume, if that is requested and a plugin supports the volume. An
// error means that the volume is not part of the backup.
func (e *engine) backUpVolume(ctx context.Context, raw []byte) error {
	pv := new(corev1.PersistentVolume)
	if err := json.Unmarshal(raw, pv); err != nil {
		return fmt.Errorf("decode the persistent volume: %w", err)
	}
	action, err := e.actionFor(ctx, pv, nil)
	switch {
	case err != nil:
		return err
	case action == resourcepolicy.FileBackup:
		e.volumes.await(pv)
		return nil
	case action != resourcepolicy.Snapshot:
		e.volumes.leaveOut(pv, notSelected, false)
		return nil
	case e.deps.CSI && pv.Spec.CSI != nil: // an action takes the snapshot
		switch {
		case !e.volumes.hasCSI:
			e.volumes.leaveOut(pv, noPlugin, true)
		default:
			e.volumes.infos.Know(pv)
		}
		return nil
	case e.req.Snapshots == nil || len(e.req.Snapshots.Locations) == 0:
		e.volumes.leaveOut(pv, noPlugin, true)
		return nil
	case e.dry != nil:
		return nil
	}
	taken, err := e.req.Snapshots.Take(ctx, pv, raw)
	if taken != nil {
		e.volumes.infos.Add(pv, taken)
	}
	if taken == nil && err == nil {
		e.log.Info("no volume snapshot location has the volume", "persistentVolume", pv.Name)
		e.volumes.leaveOut(pv, noPlugin, true)
	}
	return err
}

// actionFor returns the action for the data of a persistent volume. The first rule of the resource policy that applies
// decides, and without one, pods and the spec. claim is the claim of the volume; if it is nil, actionFor reads it if
// rules need it.
func (e *engine) actionFor(
	ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
) (action resourcepolicy.Action, err error) {
	if rules := e.policies(); len(rules) > 0 {
		if claim == nil {
			if claim, err = e.claimOf(ctx, pv); err != nil {
				return "", err
			}
		}
		if action = rules.Action(resourcepolicy.Volume{PV: pv, Claim: claim}); action != "" {
			e.log.Info("a rule of the resource policy applies to a volume", "persistentVolume", pv.Name, "action", action)
			return action, nil
		}
	}
	files, err := e.isBackedUpByFiles(ctx, pv)
	switch {
	case err != nil:
		return "", err
	case files:
		return resourcepolicy.FileBackup, nil
	case e.volumes.snapshot:
		return resourcepolicy.Snapshot, nil
	}
	return resourcepolicy.Skip, nil
}

// policies returns the rules for volumes.
func (e *engine) policies() resourcepolicy.VolumePolicies {
	if e.req.Policy == nil {
		return nil
	}
	return e.req.Policy.VolumePolicies
}

// claimOf reads the claim of a volume. It returns nil if there is none.
func (e *engine) claimOf(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	claims, ok := e.sel.snapshot.ByGroupResource(claimsResource)
	if ref == nil || !ok {
		return nil, nil
	}
	return readAs[corev1.PersistentVolumeClaim](ctx, e, claims, ref.Namespace, ref.Name)
}

// readAs reads an object. It returns nil if the object does not exist.
func readAs[T any](ctx context.Context, e *engine, resource discovery.Resource, namespace, name string) (*T, error) {
	raw, err := e.get(ctx, resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	object := new(T)
	if err == nil {
		err = json.Unmarshal(raw, object)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s, which the rules for volumes look at: %w", resource.Name, name, err)
	}
	return object, nil
}

// wantsAction reports whether an action is called for a claim, and which VolumeSnapshotClass a rule of the resource
// policy chooses for its snapshot. An action that takes snapshots is not called if a rule excludes them; an action for
// CSI volumes is called only if a snapshot is requested.
func (e *engine) wantsAction(ctx context.Context, name string, raw []byte) (wanted bool, class string, err error) {
	own := e.deps.Roles.Has(name, framework.RoleOwnSnapshots)
	if !own && !e.deps.Roles.Has(name, framework.RoleClaimSnapshots) {
		return true, "", nil
	}
	claim := new(corev1.PersistentVolumeClaim)
	if err := json.Unmarshal(raw, claim); err != nil {
		return false, "", fmt.Errorf("decode the claim: %w", err)
	}
	var pv *corev1.PersistentVolume
	if resource, ok := e.sel.snapshot.ByGroupResource(volumesResource); ok && claim.Spec.VolumeName != "" {
		if pv, err = readAs[corev1.PersistentVolume](ctx, e, resource, "", claim.Spec.VolumeName); err != nil {
			return false, "", err
		}
	}
	if pv == nil || own {
		return e.policies().Action(resourcepolicy.Volume{PV: pv, Claim: claim}) != resourcepolicy.Skip, "", nil
	}
	action, err := e.actionFor(ctx, pv, claim)
	return action == resourcepolicy.Snapshot, e.policies().SnapshotClass(resourcepolicy.Volume{PV: pv, Claim: claim}), err
}

// recordSnapshot records an item that belongs to a CSI snapshot.
func (e *engine) recordSnapshot(resource discovery.Resource, meta item.Meta, raw []byte) error {
	if resource.GroupVersion.Group != snapshotsGroup || resource.NotPreferred || e.refreshing {
		return nil
	}
	return e.volumes.infos.AddCSI(resource.Name, meta.Labels, e.req.Backup.UID, raw)
}

// leaveOut records that the data of a volume is not backed up, whether or not it was requested.
func (v *volumeState) leaveOut(pv *corev1.PersistentVolume, reason string, wanted bool) {
	v.infos.Skip(pv, reason)
	if !wanted {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.without++
}

// await records a volume that a pod is to back up.
func (v *volumeState) await(pv *corev1.PersistentVolume) {
	v.infos.Know(pv)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.awaiting = append(v.awaiting, pv)
}

// settleAwaited leaves out the volumes that no pod has backed up.
func (v *volumeState) settleAwaited() {
	v.mu.Lock()
	awaiting := v.awaiting
	v.mu.Unlock()
	for _, pv := range awaiting {
		if !v.infos.HasMethod(pv.Name) {
			v.leaveOut(pv, noPod, true)
		}
	}
}

func (v *volumeState) withoutData() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.without
}

// isBackedUpByFiles reports whether a pod that the filters select, and that has the claim of a volume, requests a file
// system backup of it: by an annotation or, if that is the default of the spec, by not excluding it.
func (e *engine) isBackedUpByFiles(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	claim := pv.Spec.ClaimRef
	if claim == nil {
		return false, nil
	}
	e.volumes.mu.Lock()
	found := e.volumes.byFiles[claim.Namespace]
	if found == nil {
		found = &claimsOfPods{names: map[string]bool{}}
		e.volumes.byFiles[claim.Namespace] = found
	}
	e.volumes.mu.Unlock()
	found.once.Do(func() { found.err = e.readClaimsOfPods(ctx, claim.Namespace, found.names) })
	return found.names[claim.Name], found.err
}

func (e *engine) readClaimsOfPods(ctx context.Context, namespace string, names map[string]bool) error {
	pods, ok := e.sel.snapshot.ByGroupResource(podsResource)
	if !ok {
		return nil
	}
	err := e.eachOf(ctx, pages.List{Resource: pods, Namespace: namespace}, func(raw []byte) error {
		meta, err := item.ParseMeta(raw)
		if err == nil && !e.picks(pods, meta) {
			return nil
		}
		var pod corev1.Pod
		if err := json.Unmarshal(raw, &pod); err != nil {
			return fmt.Errorf("decode a pod: %w", err)
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if claim := podclaims.Name(pod.Name, v); claim != "" && asksForFiles(&pod, v.Name, e.filesByDefault()) {
				names[claim] = true
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the pods of namespace %s, to learn which volumes are backed up by files: %w", namespace, err)
	}
	return nil
}
