package podvolumes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/framework/operations"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/stored"
)

// RestoreName is the name of the action of restores, which is Velero's.
const RestoreName = "velero.io/pod-volume-restore"

// NewRestore returns velero.io/pod-volume-restore. It creates a PodVolumeRestore for each volume of a pod that the
// backup has from the file system, and adds the init container in which the pod waits for them, and for those that are
// restored with another pod. The operation ends when all of them have.
func NewRestore(deps Deps) (ariav1.AsyncRestoreItemAction, error) {
	return &restores{deps: deps}, nil
}

type restores struct {
	deps   Deps
	agents agentpods.Watch
}

// AppliesTo implements ariav1.AsyncRestoreItemAction.
func (*restores) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

// Start implements ariav1.AsyncRestoreItemAction. The pod does not exist yet, so the agent that accepts a
// PodVolumeRestore completes it with the UID of the pod. A pod that exists is left alone.
func (a *restores) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	unchanged := ariav1.NewStartOutput(nil)
	removed, err := removeWaiting(input.Item.Object)
	if err != nil {
		return nil, err
	}
	if removed {
		unchanged = ariav1.NewStartOutput(input.Item) // of an earlier restore
	}
	pod, err := podOf(input.Item)
	if err != nil {
		return nil, err
	}
	if _, complete := input.Item.Object["spec"]; complete && len(pod.Spec.Volumes) == 0 {
		return unchanged, nil
	}
	api, namespace, err := a.deps.open()
	if err != nil {
		return nil, err
	}
	id := operations.ID(RestoreName, input.Key)
	known, err := findRestores(ctx, api, loadproof.KeyOf(input.Restore), namespace, id)
	if err != nil {
		return nil, fmt.Errorf("list the PodVolumeRestores of the pod: %w", err)
	}
	source := client.ObjectKey{Namespace: input.ItemFromBackup.GetNamespace(), Name: input.ItemFromBackup.GetName()}
	volumes, err := storedVolumes(ctx, api, namespace, input.Restore, source, pod)
	if err != nil {
		return nil, err
	}
	pod.Namespace = input.Restore.Spec.TargetNamespace(source.Namespace)
	shared, err := sharedVolumes(ctx, api, input.Restore, pod)
	switch {
	case err != nil:
		return nil, err
	case len(volumes)+len(shared) == 0 && len(known) == 0:
		return unchanged, nil
	case len(volumes)+len(shared) == 0:
		return unchanged.WithOperation(id), nil
	}
	if len(known) == 0 {
		live, err := podNow(ctx, api, client.ObjectKeyFromObject(pod))
		switch {
		case err != nil:
			return nil, err
		case live != nil:
			framework.Log(ctx).Info("the pod exists, so its volumes are not restored", "namespace", pod.Namespace, "name",
				pod.Name)
			return unchanged, nil
		}
		if err := agentpods.Check(ctx, api, namespace, ""); err != nil {
			return nil, err
		}
	}
	own := make([]string, 0, len(volumes))
	for _, b := range volumes {
		own = append(own, b.Spec.Volume)
	}
	container, err := a.container(ctx, api, namespace, input.Restore, pod, append(own, shared...))
	if err != nil {
		return nil, err
	}
	if err := makeWritable(input.Item.Object, own); err != nil {
		return nil, err
	}
	if err := addWaiting(input.Item.Object, container); err != nil {
		return nil, err
	}
	var fresh []client.Object
	for _, b := range volumes {
		if has(known, b.Spec.Volume) {
			continue
		}
		r, err := newRestore(ctx, api, namespace, id, input.Restore, pod, b, volumes)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, r)
	}
	if err := createAll(ctx, api, loadproof.KeyOf(input.Restore), fresh); err != nil {
		return nil, err
	}
	output := ariav1.NewStartOutput(input.Item)
	if len(fresh)+len(known) == 0 { // the operation of another pod restores all of them
		return output, nil
	}
	return output.WithOperation(id), nil
}

// sharedVolumes returns the volumes of a pod, sorted, that are restored with another pod, which mounts the same claim.
// If that pod exists, and is not one that this restore has made, they are not restored.
func sharedVolumes(ctx context.Context, api client.Client, r *velerov1.Restore, pod *corev1.Pod) ([]string, error) {
	text := r.Annotations[velerov1.SharedVolumesAnnotation]
	if text == "" {
		return nil, nil
	}
	var with map[string]string
	if err := json.Unmarshal([]byte(text), &with); err != nil {
		return nil, fmt.Errorf("annotation %s of Restore %s: %w", velerov1.SharedVolumesAnnotation, r.Name, err)
	}
	maps.DeleteFunc(with, func(volume, _ string) bool {
		return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	})
	for volume, name := range with {
		other, err := podNow(ctx, api, client.ObjectKey{Namespace: pod.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if other != nil && !waitsFor(other, r) {
			delete(with, volume)
		}
	}
	return slices.Sorted(maps.Keys(with)), nil
}

// podNow returns a pod, nil if it does not exist.
func podNow(ctx context.Context, api client.Client, key client.ObjectKey) (*corev1.Pod, error) {
	pod := new(corev1.Pod)
	err := api.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look whether pod %s exists: %w", key, err)
	}
	return pod, nil
}

// storedVolumes returns the PodVolumeBackups with the data of a pod's volumes, sorted by volume: they belong to the
// backup, have a snapshot in a repository of restic, and are recorded in the bucket. source is the pod in the backup.
func storedVolumes(
	ctx context.Context, api client.Client, namespace string, r *velerov1.Restore, source types.NamespacedName,
	pod *corev1.Pod,
) ([]*velerov1.PodVolumeBackup, error) {
	snapshots, _, err := stored.Of(r)
	if err != nil || len(snapshots) == 0 {
		return nil, err
	}
	var backup velerov1.Backup
	if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Spec.BackupName}, &backup); err != nil {
		return nil, fmt.Errorf("get backup %s: %w", r.Spec.BackupName, err)
	}
	var list velerov1.PodVolumeBackupList
	labels := client.MatchingLabels{velerov1.BackupNameLabel: velerov1.ValidLabelValue(backup.Name)}
	if err := api.List(ctx, &list, client.InNamespace(namespace), labels); err != nil {
		return nil, fmt.Errorf("list the PodVolumeBackups of backup %s: %w", backup.Name, err)
	}
	var found []*velerov1.PodVolumeBackup
	other := map[string]string{} // PodVolumeBackups that differ from the record of the backup, by volume
	for i := range list.Items {
		b := &list.Items[i]
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == b.Spec.Volume && podclaims.NeverMoved(&v) == ""
		})
		switch recorded := snapshots[b.Spec.Volume]; {
		case at < 0 || b.Spec.Pod.Namespace != source.Namespace || b.Spec.Pod.Name != source.Name || recorded == "" ||
			velerov1.MoverOf(b.Spec.Engine()) == "":
		case b.Status.SnapshotID == recorded && b.Spec.BackupStorageLocation == backup.Spec.StorageLocation:
			found = append(found, b)
		default:
			other[b.Spec.Volume] = fmt.Sprintf("PodVolumeBackup %s names snapshot %q in location %s", b.Name,
				b.Status.SnapshotID, b.Spec.BackupStorageLocation)
		}
	}
	slices.SortFunc(found, func(a, b *velerov1.PodVolumeBackup) int {
		return strings.Compare(a.Spec.Volume, b.Spec.Volume)
	})
	found = slices.CompactFunc(found, func(a, b *velerov1.PodVolumeBackup) bool { return a.Spec.Volume == b.Spec.Volume })
	for _, volume := range slices.Sorted(maps.Keys(other)) {
		if !slices.ContainsFunc(found, func(b *velerov1.PodVolumeBackup) bool { return b.Spec.Volume == volume }) {
			return nil, framework.Errorf("volume %s: %s, and the backup has recorded snapshot %q in location %s; delete the "+
				"Backup object, without its data, so that the server brings both back from the bucket",
				volume, other[volume], snapshots[volume], backup.Spec.StorageLocation)
		}
	}
	return found, nil
}

// newRestore returns the PodVolumeRestore of a volume.
func newRestore(
	ctx context.Context, api client.Client, namespace, id string, r *velerov1.Restore, pod *corev1.Pod,
	b *velerov1.PodVolumeBackup, all []*velerov1.PodVolumeBackup,
) (*velerov1.PodVolumeRestore, error) {
	var volumes []string
	for _, other := range all {
		volumes = append(volumes, other.Spec.Volume)
	}
	made := &velerov1.PodVolumeRestore{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameFor(r.Name, id, b.Spec.Volume),
			OwnerReferences: []metav1.OwnerReference{velerov1.ControllerRef("Restore", r)},
			Labels: map[string]string{
				velerov1.RestoreNameLabel: velerov1.ValidLabelValue(r.Name), velerov1.RestoreUIDLabel: string(r.UID),
				velerov1.AsyncOperationIDLabel: id,
			},
			Annotations: map[string]string{velerov1.LoadVolumesAnnotation: strings.Join(volumes, ",")},
		},
		Spec: velerov1.PodVolumeRestoreSpec{
			Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, Volume: b.Spec.Volume,
			BackupStorageLocation: b.Spec.BackupStorageLocation, RepoIdentifier: b.Spec.RepoIdentifier,
			UploaderType: b.Spec.Engine(),
			SnapshotID:   b.Status.SnapshotID, SnapshotSize: b.Status.Progress.TotalBytes, SourceNamespace: b.Spec.Pod.Namespace,
			UploaderSettings: settingsOf(r.Spec.UploaderConfig),
		},
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := podclaims.Name(pod.Name, v)
		if v.Name != b.Spec.Volume || name == "" {
			continue
		}
		made.Annotations[velerov1.PVCNameAnnotation] = name // by which agents find the other pods that wait for it
		var claim corev1.PersistentVolumeClaim
		err := api.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &claim)
		if apierrors.IsNotFound(err) { // the pod waits for it
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get the claim of volume %s: %w", v.Name, err)
		}
		made.Labels[velerov1.PVCUIDLabel] = string(claim.UID)
		describe(made, &claim)
	}
	return made, nil
}

// settingsOf returns the settings of the mover in a restore.
func settingsOf(config *velerov1.UploaderConfigForRestore) map[string]string {
	if config == nil {
		return nil
	}
	settings := map[string]string{}
	if config.WriteSparseFiles != nil {
		settings["WriteSparseFiles"] = strconv.FormatBool(*config.WriteSparseFiles)
	}
	if config.ParallelFilesDownload > 0 {
		settings["ParallelFilesDownload"] = strconv.Itoa(config.ParallelFilesDownload)
	}
	return settings
}

// Progress implements ariav1.AsyncRestoreItemAction. It is called when the run of the restore has ended, so a pod that
// does not exist will not be created any more. The operation ends when the init container of the pod has ended, or can
// no longer end.
func (a *restores) Progress(ctx context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	api, loads, err := a.loads(ctx, input.Restore, input.OperationID)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	progress := progressOf(loads)
	of, ok := loads[0].Object.(*velerov1.PodVolumeRestore)
	if progress.Err != "" || !ok {
		a.agents.Ended(input.OperationID)
		return progress, nil
	}
	pod, err := podOfLoad(ctx, api, of)
	if err != nil {
		return progress, err
	}
	if progress.Completed {
		a.agents.Ended(input.OperationID)
		if pod != nil {
			progress.Completed, progress.Description, progress.Err = hasStarted(pod, loads, time.Now())
			progress.Completed = progress.Completed || progress.Err != ""
		}
		return progress, nil
	}
	hopeless, err := a.hopeless(ctx, api, input, loads, of, pod)
	if err != nil {
		return progress, err
	}
	if hopeless == "" {
		progress.Description += fmt.Sprintf("; pod %s/%s: %s", of.Spec.Pod.Namespace, of.Spec.Pod.Name, stateOf(pod))
		return progress, nil
	}
	if err := cancelOpen(ctx, api, loads); err != nil {
		return progress, err
	}
	a.agents.Ended(input.OperationID)
	progress.Completed, progress.Err, progress.Description = true, hopeless, ""
	return progress, nil
}

// podOfLoad returns the pod of a load, nil if it does not exist any more.
func podOfLoad(ctx context.Context, api client.Client, of *velerov1.PodVolumeRestore) (*corev1.Pod, error) {
	pod, err := podNow(ctx, api, client.ObjectKey{Namespace: of.Spec.Pod.Namespace, Name: of.Spec.Pod.Name})
	if pod != nil && of.Spec.Pod.UID != "" && pod.UID != of.Spec.Pod.UID {
		return nil, nil
	}
	return pod, err
}

// hopeless returns why the volumes of a pod will not be restored, or "". pod is nil if it does not exist any more.
func (a *restores) hopeless(
	ctx context.Context, api client.Client, input *ariav1.ProgressInput, loads []load, of *velerov1.PodVolumeRestore,
	pod *corev1.Pod,
) (string, error) {
	name := of.Spec.Pod.Namespace + "/" + of.Spec.Pod.Name
	switch {
	case pod == nil:
		return fmt.Sprintf("pod %s was deleted before its volumes were restored, or could not be created, of which there is "+
			"an error of its own", name), nil
	case !waitsFor(pod, input.Restore):
		return fmt.Sprintf("pod %s is not the one that the restore has created: it does not wait for its volumes in init "+
			"container %s", name, waitContainer), nil
	case pod.Spec.NodeName == "":
		return "", nil
	}
	why, long, err := missed(ctx, &a.agents, api, of.Namespace, pod.Spec.NodeName, input.OperationID, loads)
	if !long {
		return "", err
	}
	return why, nil
}

// Cancel implements ariav1.AsyncRestoreItemAction.
func (a *restores) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	api, loads, err := a.loads(ctx, input.Restore, input.OperationID)
	if err != nil {
		return err
	}
	return cancelOpen(ctx, api, loads)
}

// loads returns the PodVolumeRestores of an operation, at least one.
func (a *restores) loads(ctx context.Context, r *velerov1.Restore, id string) (client.Client, []load, error) {
	return a.deps.loads(ctx, loadproof.KeyOf(r), id, "PodVolumeRestores", findRestores)
}
