package csi

import (
	"cmp"
	"context"
	"strconv"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// moves reports whether a backup moves the data of its snapshots to the backup storage.
func moves(b *velerov1.Backup) bool {
	return b.Spec.SnapshotMoveData != nil && *b.Spec.SnapshotMoveData
}

// moverFor returns the name of the data mover of a backup.
func moverFor(b *velerov1.Backup) string {
	return velerov1.DataMoverFor(b.Spec.DataMover, velerov1.UploaderOf(b))
}

// uploadOperation returns the id of the operation that moves the data of a claim: Velero's.
func uploadOperation(b *velerov1.Backup, claim types.UID) string {
	return velerov1.ValidLabelValue("du-" + string(b.UID) + "." + string(claim))
}

// move creates the DataUpload of a snapshot of a claim, and returns its name.
func (a *claims) move(
	ctx context.Context, b *velerov1.Backup, claim *unstructured.Unstructured, vs *snapshotv1.VolumeSnapshot,
	content *snapshotv1.VolumeSnapshotContent,
) (string, error) {
	class, err := field.Text(claim.Object, "spec", "storageClassName")
	if err != nil {
		return "", err
	}
	upload := &v2alpha1.DataUpload{
		ObjectMeta: metadata(b, "Backup", prefix(b.Name)+rand.String(5), uploadOperation(b, claim.GetUID()),
			map[string]string{
				velerov1.BackupNameLabel: velerov1.ValidLabelValue(b.Name), velerov1.BackupUIDLabel: string(b.UID),
				velerov1.PVCUIDLabel: string(claim.GetUID()),
			}),
		Spec: v2alpha1.DataUploadSpec{
			SnapshotType: v2alpha1.SnapshotTypeCSI,
			CSISnapshot:  &v2alpha1.CSISnapshotSpec{VolumeSnapshot: vs.Name, StorageClass: class, Driver: content.Spec.Driver},
			SourcePVC:    claim.GetName(), SourceNamespace: claim.GetNamespace(),
			DataMover:             moverFor(b),
			BackupStorageLocation: b.Spec.StorageLocation, DataMoverConfig: b.Spec.UploaderConfig.MoverSettings(),
			OperationTimeout: metav1.Duration{Duration: cmp.Or(b.Spec.CSISnapshotTimeout.Duration, defaultTimeout)},
		},
	}
	if vs.Spec.VolumeSnapshotClassName != nil {
		upload.Spec.CSISnapshot.SnapshotClass = *vs.Spec.VolumeSnapshotClassName
	}
	if size := content.Status.RestoreSize; size != nil {
		upload.Annotations = map[string]string{velerov1.LoadBytesAnnotation: strconv.FormatInt(*size, 10)}
	}
	all, err := loadsIn(a.cluster, uploads, b.Namespace, loadproof.KeyOf(b))
	if err == nil {
		err = all.create(ctx, upload)
	}
	return upload.Name, err
}

// Progress implements biav2.BackupItemAction.
func (a *claims) Progress(ctx context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	all, err := loadsIn(a.cluster, uploads, input.Backup.Namespace, loadproof.KeyOf(input.Backup))
	if err != nil {
		return framework.OperationProgress{}, err
	}
	return all.follow(ctx, a.cluster, &a.agents, input.Backup.Namespace, input.OperationID)
}

// Cancel implements biav2.BackupItemAction.
func (a *claims) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	all, err := loadsIn(a.cluster, uploads, input.Backup.Namespace, loadproof.KeyOf(input.Backup))
	if err != nil {
		return err
	}
	return all.cancelOperation(ctx, input.OperationID)
}

// NewStoredUploads returns cleat.dev/dataupload. In a backup, a DataUpload names its data mover as Velero does.
func NewStoredUploads(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
	return storedUploads{}, nil
}

type storedUploads struct{}

func (storedUploads) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{uploads.resource.GroupResource().String()}}, nil
}

func (storedUploads) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	mover, err := field.Text(input.Item.Object, "spec", "datamover")
	if err != nil {
		return nil, err
	}
	stored := velerov1.StoredDataMover(mover)
	if mover == "" || stored == mover {
		return nil, nil
	}
	if err := unstructured.SetNestedField(input.Item.Object, stored, "spec", "datamover"); err != nil {
		return nil, err
	}
	return biav1.NewExecuteOutput(input.Item), nil
}

// uploadItem returns the identifier of a DataUpload.
func uploadItem(namespace, name string) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{Group: uploads.resource.Group, Resource: uploads.resource.Resource,
		Namespace: namespace, Name: name}
}
