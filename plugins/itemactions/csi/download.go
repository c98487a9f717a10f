package csi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/stored"
)

// resultUsage is the value of the label velero.io/resource-usage of the ConfigMaps with the results of DataUploads.
const resultUsage = "DataUpload"

// NewRestoredUploads returns velero.io/dataupload. It does not restore a DataUpload of the backup, which would move
// data again. It writes the result of the DataUpload to a ConfigMap for velero.io/csi-pvc-restorer, which exists as
// long as the restore runs.
func NewRestoredUploads(cluster Cluster) (riav1.RestoreItemAction, error) {
	return &restoredUploads{cluster}, nil
}

type restoredUploads struct{ cluster Cluster }

func (*restoredUploads) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{uploads.resource.GroupResource().String()}}, nil
}

func (a *restoredUploads) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	skip := &riav1.ExecuteOutput{SkipRestore: true}
	if wantsNoVolumes(input.Restore) || velerov1.IsDryRun(input.Restore) {
		return skip, nil
	}
	var upload v2alpha1.DataUpload
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(input.ItemFromBackup.Object, &upload); err != nil {
		return nil, fmt.Errorf("decode the DataUpload: %w", err)
	}
	if upload.Status.Phase != velerov1.LoadPhaseCompleted { // an empty volume has no snapshot id
		framework.Log(ctx).Warn("the DataUpload has not moved its data", "name", upload.Name, "phase", upload.Status.Phase,
			"message", upload.Status.Message)
		return skip, nil
	}
	backup, err := backupOf(ctx, a.cluster, input.Restore)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(v2alpha1.DataUploadResult{
		// which may have another name than in the cluster of the DataUpload
		BackupStorageLocation: backup.Spec.StorageLocation,
		DataMover:             upload.Spec.DataMover, SnapshotID: upload.Status.SnapshotID,
		SnapshotSize:    upload.Status.Progress.TotalBytes,
		SourceNamespace: upload.Spec.SourceNamespace, DataMoverResult: upload.Status.DataMoverResult,
		NodeOS: upload.Status.NodeOS,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the result of the DataUpload: %w", err)
	}
	api, err := a.cluster.ConfigMaps(input.Restore.Namespace)
	if err != nil {
		return nil, err
	}
	_, err = api.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: derivedName(upload.Name, string(input.Restore.UID)), OwnerReferences: []metav1.OwnerReference{
				velerov1.ControllerRef("Restore", input.Restore),
			},
			Labels: map[string]string{
				velerov1.RestoreUIDLabel:    velerov1.ValidLabelValue(string(input.Restore.UID)),
				velerov1.ResourceUsageLabel: resultUsage,
				velerov1.PVCNamespaceNameLabel: velerov1.ValidLabelValue(upload.Spec.SourceNamespace + "." +
					upload.Spec.SourcePVC),
				velerov1.ExcludeFromBackupLabel: "true",
			},
		},
		Data: map[string]string{string(input.Restore.UID): string(text)},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // by a server that was killed
		return nil, fmt.Errorf("create the ConfigMap with the result of the DataUpload: %w", err)
	}
	return skip, nil
}

// backupOf returns the backup of a restore.
func backupOf(ctx context.Context, cluster Cluster, r *velerov1.Restore) (*velerov1.Backup, error) {
	objects, err := cluster.Dynamic()
	if err != nil {
		return nil, err
	}
	found, err := objects.Resource(velerov1.SchemeGroupVersion.WithResource("backups")).Namespace(r.Namespace).Get(ctx,
		r.Spec.BackupName, metav1.GetOptions{})
	backup := new(velerov1.Backup)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, backup)
	}
	if err != nil {
		return nil, fmt.Errorf("get backup %s: %w", r.Spec.BackupName, err)
	}
	return backup, nil
}

// resultOf returns the result of the DataUpload of a claim, which is named as in the backup.
func (a *restoredClaims) resultOf(
	ctx context.Context, r *velerov1.Restore, namespace, claim string,
) (*v2alpha1.DataUploadResult, error) {
	api, err := a.cluster.ConfigMaps(r.Namespace)
	if err != nil {
		return nil, err
	}
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{
		velerov1.RestoreUIDLabel: velerov1.ValidLabelValue(string(r.UID)), velerov1.ResourceUsageLabel: resultUsage,
		velerov1.PVCNamespaceNameLabel: velerov1.ValidLabelValue(namespace + "." + claim),
	}})
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the ConfigMaps with the results of DataUploads: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return nil, errors.New("the backup has no DataUpload that has moved the data of the claim")
	case 1:
	default:
		return nil, fmt.Errorf("%d ConfigMaps of namespace %s have the labels %s, want one", len(list.Items), r.Namespace,
			selector)
	}
	result := new(v2alpha1.DataUploadResult)
	if err := json.Unmarshal([]byte(list.Items[0].Data[string(r.UID)]), result); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s, the result of a DataUpload: key %s: %w", r.Namespace, list.Items[0].Name,
			r.UID, err)
	}
	return result, nil
}

// download starts moving the data of a claim back, and makes the claim wait for a volume with the data.
func (a *restoredClaims) download(
	ctx context.Context, input *riav2.ExecuteInput, backup *velerov1.Backup, spec map[string]any,
) (*riav2.ExecuteOutput, error) {
	r, from := input.Restore, input.ItemFromBackup
	namespace, name := r.Spec.TargetNamespace(from.GetNamespace()), from.GetName()
	// No provisioner makes a volume for a claim with a selector. The agent binds it to the one that has the data.
	label := velerov1.ValidLabelValue(namespace + "." + name + "." + rand.String(5))
	if err := unstructured.SetNestedField(spec, label, "selector", "matchLabels",
		velerov1.DynamicPVRestoreLabel); err != nil {
		return nil, err
	}
	output := riav2.NewExecuteOutput(input.Item)
	if velerov1.IsDryRun(r) {
		return output, nil
	}
	result, err := a.resultOf(ctx, r, from.GetNamespace(), name)
	if err != nil {
		return nil, err
	}
	if known, recorded, err := stored.Of(r); err != nil || recorded && known[name] != result.SnapshotID {
		return nil, cmp.Or(err, fmt.Errorf("its DataUpload names snapshot %q, and the backup has recorded %q for the "+
			"claim: the DataUpload was changed, so the data is not restored", result.SnapshotID, known[name]))
	}
	all, err := loadsIn(a.cluster, downloads, r.Namespace, loadproof.KeyOf(r))
	if err != nil {
		return nil, err
	}
	mover := velerov1.DataMoverFor(result.DataMover, velerov1.RepositoryTypeKopia)
	if err := checkAgents(ctx, a.cluster, r.Namespace, mover); err != nil {
		return nil, err
	}
	output.OperationID = velerov1.ValidLabelValue("dd-" + string(r.UID) + "." + string(from.GetUID()))
	err = all.create(ctx, &v2alpha1.DataDownload{
		ObjectMeta: metadata(r, "Restore", derivedName(r.Name, output.OperationID), output.OperationID, map[string]string{
			velerov1.RestoreNameLabel: velerov1.ValidLabelValue(r.Name), velerov1.RestoreUIDLabel: string(r.UID),
		}),
		Spec: v2alpha1.DataDownloadSpec{
			TargetVolume:          v2alpha1.TargetVolumeSpec{PVC: name, Namespace: namespace},
			BackupStorageLocation: result.BackupStorageLocation, DataMover: mover, SnapshotID: result.SnapshotID,
			SnapshotSize:    result.SnapshotSize,
			SourceNamespace: result.SourceNamespace, NodeOS: result.NodeOS, DataMoverConfig: restoreSettings(
				r.Spec.UploaderConfig,
			),
			OperationTimeout: metav1.Duration{Duration: cmp.Or(backup.Spec.CSISnapshotTimeout.Duration, defaultTimeout)},
		},
	})
	return output, err
}

// restoreSettings returns the settings of a data mover, with Velero's names.
func restoreSettings(u *velerov1.UploaderConfigForRestore) map[string]string {
	if u == nil {
		return nil
	}
	settings := map[string]string{"WriteSparseFiles": strconv.FormatBool(u.WriteSparseFiles != nil && *u.WriteSparseFiles)}
	if u.ParallelFilesDownload > 0 {
		settings["ParallelFilesDownload"] = strconv.Itoa(u.ParallelFilesDownload)
	}
	return settings
}

// Progress implements riav2.RestoreItemAction.
func (a *restoredClaims) Progress(
	ctx context.Context, input *riav2.ProgressInput,
) (framework.OperationProgress, error) {
	all, err := loadsIn(a.cluster, downloads, input.Restore.Namespace, loadproof.KeyOf(input.Restore))
	if err != nil {
		return framework.OperationProgress{}, err
	}
	return all.follow(ctx, a.cluster, &a.agents, input.Restore.Namespace, input.OperationID)
}

// Cancel implements riav2.RestoreItemAction.
func (a *restoredClaims) Cancel(ctx context.Context, input *riav2.CancelInput) error {
	all, err := loadsIn(a.cluster, downloads, input.Restore.Namespace, loadproof.KeyOf(input.Restore))
	if err != nil {
		return err
	}
	return all.cancelOperation(ctx, input.OperationID)
}

// AreAdditionalItemsReady implements riav2.RestoreItemAction. The action waits for nothing.
func (*restoredClaims) AreAdditionalItemsReady(
	context.Context, *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	return &riav2.AreAdditionalItemsReadyOutput{Ready: true}, nil
}
