package podvolumes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/framework/operations"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
)

// BackupName is the name of the action of backups.
const BackupName = "cleat.dev/pod-volume-backup"

// NewBackup returns cleat.dev/pod-volume-backup. It creates a PodVolumeBackup for each volume that an annotation of the
// pod names. The operation ends when all of them have.
func NewBackup(deps Deps) (abiav1.AsyncBackupItemAction, error) {
	return &backups{deps: deps}, nil
}

type backups struct {
	deps   Deps
	agents agentpods.Watch
}

// AppliesTo implements abiav1.AsyncBackupItemAction.
func (*backups) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

// Start implements abiav1.AsyncBackupItemAction.
func (a *backups) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	pod, err := podOf(input.Item)
	if err != nil {
		return nil, err
	}
	wanted := wantedVolumes(pod)
	if _, complete := input.Item.Object["spec"]; complete && len(wanted) == 0 {
		return nil, nil
	}
	api, namespace, err := a.deps.open()
	if err != nil {
		return nil, err
	}
	id := operations.ID(BackupName, input.Key)
	known, err := findBackups(ctx, api, loadproof.KeyOf(input.Backup), namespace, id)
	if err != nil {
		return nil, fmt.Errorf("list the PodVolumeBackups of the pod: %w", err)
	}
	wanted = slices.DeleteFunc(wanted, func(v corev1.Volume) bool {
		why := podclaims.NeverMoved(&v)
		if why != "" {
			framework.Log(ctx).Warn("a volume that an annotation of the pod names is not backed up from the file system: "+why,
				"namespace", pod.Namespace, "name", pod.Name, "volume", v.Name)
		}
		return why != "" || has(known, v.Name)
	})
	switch {
	case len(known)+len(wanted) == 0:
		return nil, nil
	case len(wanted) == 0:
		return abiav1.NewStartOutput(nil).WithOperation(id), nil
	}
	if err := agentpods.Check(ctx, api, namespace, pod.Spec.NodeName); err != nil {
		return nil, err
	}
	var fresh []client.Object
	for i := range wanted {
		b, err := newBackup(ctx, api, namespace, id, input.Backup, pod, &wanted[i])
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, b)
	}
	if err := createAll(ctx, api, loadproof.KeyOf(input.Backup), fresh); err != nil {
		return nil, err
	}
	framework.Log(ctx).Info("volumes of the pod are backed up from the file system", "namespace", pod.Namespace, "name",
		pod.Name,
		"volumes", input.Item.GetAnnotations()[velerov1.VolumesToBackupAnnotation])
	return abiav1.NewStartOutput(nil).WithOperation(id), nil
}

func podOf(item *unstructured.Unstructured) (*corev1.Pod, error) {
	pod := new(corev1.Pod)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, pod); err != nil {
		return nil, framework.Errorf("decode the pod: %w", err)
	}
	return pod, nil
}

// wantedVolumes returns the volumes of a pod that its annotation names.
func wantedVolumes(pod *corev1.Pod) (wanted []corev1.Volume) {
	names := strings.Split(pod.Annotations[velerov1.VolumesToBackupAnnotation], ",")
	for _, v := range pod.Spec.Volumes {
		if slices.Contains(names, v.Name) {
			wanted = append(wanted, v)
		}
	}
	return wanted
}

// newBackup returns the PodVolumeBackup of a volume.
func newBackup(
	ctx context.Context, api client.Client, namespace, id string, b *velerov1.Backup, pod *corev1.Pod, v *corev1.Volume,
) (*velerov1.PodVolumeBackup, error) {
	made := &velerov1.PodVolumeBackup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameFor(b.Name, id, v.Name),
			OwnerReferences: []metav1.OwnerReference{velerov1.ControllerRef("Backup", b)},
			Labels: map[string]string{
				velerov1.BackupNameLabel: velerov1.ValidLabelValue(b.Name), velerov1.BackupUIDLabel: string(b.UID),
				velerov1.AsyncOperationIDLabel: id,
			},
			Annotations: map[string]string{velerov1.LoadVolumesAnnotation: pod.Annotations[velerov1.VolumesToBackupAnnotation]},
		},
		Spec: velerov1.PodVolumeBackupSpec{
			Node: pod.Spec.NodeName, Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
				UID: pod.UID}, Volume: v.Name,
			BackupStorageLocation: b.Spec.StorageLocation, UploaderType: velerov1.UploaderOf(b),
			UploaderSettings: b.Spec.UploaderConfig.MoverSettings(),
			Tags: map[string]string{
				"backup": b.Name, "backup-uid": string(b.UID), "pod": pod.Name, "pod-uid": string(pod.UID), "ns": pod.Namespace,
				"volume": v.Name,
			},
		},
	}
	name := podclaims.Name(pod.Name, v)
	if name == "" {
		return made, nil
	}
	var claim corev1.PersistentVolumeClaim
	if err := api.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &claim); err != nil {
		return nil, fmt.Errorf("get the claim of volume %s: %w", v.Name, err)
	}
	made.Annotations[velerov1.PVCNameAnnotation] = claim.Name
	made.Labels[velerov1.PVCUIDLabel], made.Spec.Tags["pvc-uid"] = string(claim.UID), string(claim.UID)
	describe(made, &claim)
	return made, nil
}

// describe notes on a load the storage class and the size of its claim, for the policy that decides when the load may
// begin.
func describe(object client.Object, claim *corev1.PersistentVolumeClaim) {
	annotations := object.GetAnnotations()
	if class := claim.Spec.StorageClassName; class != nil && *class != "" {
		annotations[velerov1.LoadStorageClassAnnotation] = *class
	}
	size := claim.Status.Capacity.Storage()
	if size.IsZero() {
		size = claim.Spec.Resources.Requests.Storage()
	}
	if bytes := size.Value(); bytes > 0 {
		annotations[velerov1.LoadBytesAnnotation] = strconv.FormatInt(bytes, 10)
	}
}

// Progress implements abiav1.AsyncBackupItemAction. It ends the loads of a node whose agent is away.
func (a *backups) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	api, loads, err := a.loads(ctx, input.Backup, input.OperationID)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	progress := progressOf(loads)
	of, ok := loads[0].Object.(*velerov1.PodVolumeBackup)
	if progress.Completed || !ok {
		a.agents.Ended(input.OperationID)
		return progress, nil
	}
	why, long, err := missed(ctx, &a.agents, api, of.Namespace, of.Spec.Node, input.OperationID, loads)
	switch {
	case err != nil || why == "":
		return progress, err
	case !long:
		progress.Description += "; " + why
		return progress, nil
	}
	if err := failOpen(ctx, api, loadproof.KeyOf(input.Backup), loads, why); err != nil {
		return progress, err
	}
	a.agents.Ended(input.OperationID)
	return progressOf(loads), nil
}

// Cancel implements abiav1.AsyncBackupItemAction.
func (a *backups) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	api, loads, err := a.loads(ctx, input.Backup, input.OperationID)
	if err != nil {
		return err
	}
	return cancelOpen(ctx, api, loads)
}

// loads returns the PodVolumeBackups of an operation, at least one.
func (a *backups) loads(ctx context.Context, b *velerov1.Backup, id string) (client.Client, []load, error) {
	return a.deps.loads(ctx, loadproof.KeyOf(b), id, "PodVolumeBackups", findBackups)
}

// loads returns the loads of an operation, at least one.
func (d Deps) loads(
	ctx context.Context, key loadproof.Key, id, kind string, find func(ctx context.Context, api client.Client,
		key loadproof.Key, namespace, id string) ([]load, error),
) (client.Client, []load, error) {
	if err := checkID(id); err != nil {
		return nil, nil, err
	}
	api, namespace, err := d.open()
	if err != nil {
		return nil, nil, err
	}
	loads, err := find(ctx, api, key, namespace, id)
	if err != nil {
		return nil, nil, fmt.Errorf("list the %s of operation %s: %w", kind, id, err)
	}
	if len(loads) == 0 {
		return nil, nil, framework.NotFound("the %s of operation %s do not exist any more", kind, id)
	}
	return api, loads, nil
}
