package csi

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
)

// NewVolumeSnapshots returns velero.io/csi-volumesnapshot-backupper. It adds the content and the class of a snapshot to
// the backup, and what a restore has to know of them to the snapshot. For a snapshot of this backup it starts an
// operation, which ends when the snapshot is ready.
func NewVolumeSnapshots(cluster Cluster) (biav2.BackupItemAction, error) {
	return &volumeSnapshots{cluster: cluster, snapshots: snapshots{cluster}}, nil
}

type volumeSnapshots struct {
	cluster   Cluster
	snapshots snapshots
}

func (*volumeSnapshots) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return all(snapshotsResource), nil
}

func (a *volumeSnapshots) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	namespace, name := input.Item.GetNamespace(), input.Item.GetName()
	vs, content, err := a.snapshots.look(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	output := biav2.NewExecuteOutput(input.Item)
	// Who creates a snapshot can name any class. The snapshot controller accepts one of the driver of the volume.
	if class := vs.Spec.VolumeSnapshotClassName; class != nil && content != nil && !isFinalizing(input.Backup) &&
		content.Spec.VolumeSnapshotClassName != nil && *content.Spec.VolumeSnapshotClassName == *class {
		output.WithItems(of(classesResource, "", *class))
	}
	if annotations := input.Item.GetAnnotations(); isOf(input.Item.GetLabels(), input.Backup) {
		if claim := annotations[velerov1.SnapshotOfClaimAnnotation]; claim != "" {
			// A restore, and Velero, know a snapshot by its claim.
			input.Item.Object["spec"] = map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim}}
			delete(annotations, velerov1.SnapshotOfClaimAnnotation)
			input.Item.SetAnnotations(annotations)
		}
	}
	if content != nil {
		annotate(input.Item, describe(content))
		if !isFinalizing(input.Backup) {
			output.WithItems(of(contentsResource, "", content.Name))
		}
	}
	annotate(input.Item, map[string]string{velerov1.MustIncludeAdditionalItemsAnnotation: "true"})
	if !isOf(input.Item.GetLabels(), input.Backup) || isFinalizing(input.Backup) {
		return output, nil
	}
	if content == nil {
		return nil, fmt.Errorf("VolumeSnapshot %s/%s has no content", namespace, name)
	}
	// By the label, a deletion knows the contents that this backup has made.
	api, err := a.cluster.Snapshots()
	if err != nil {
		return nil, err
	}
	label := map[string]any{velerov1.BackupNameLabel: velerov1.ValidLabelValue(input.Backup.Name),
		velerov1.BackupUIDLabel: string(input.Backup.UID)}
	mark := markOf(input.Backup, contentKind, content.Name)
	if err := patchContent(ctx, api, content.Name,
		map[string]any{"metadata": map[string]any{"labels": label, "annotations": mark}}); err != nil {
		return nil, fmt.Errorf("label VolumeSnapshotContent %s: %w", content.Name, err)
	}
	id := namespace + "/" + name + "/" + time.Now().Format(time.RFC3339) // Velero's
	return output.WithOperation(id, of(snapshotsResource, namespace, name), of(contentsResource, "", content.Name)), nil
}

// describe returns the annotations of a snapshot that describe its content.
func describe(content *snapshotv1.VolumeSnapshotContent) map[string]string {
	known := map[string]string{velerov1.VSCDeletionPolicyAnnotation: string(content.Spec.DeletionPolicy)}
	const group = velerov1.VolumeGroupSnapshotHandleAnnotation
	if inGroup(content) {
		known[group] = content.Annotations[group]
	}
	if content.Status == nil {
		return known
	}
	if handle := content.Status.SnapshotHandle; handle != nil {
		known[velerov1.VolumeSnapshotHandleAnnotation], known[velerov1.DriverNameAnnotation] = *handle, content.Spec.Driver
	}
	if size := content.Status.RestoreSize; size != nil {
		known[velerov1.VolumeSnapshotRestoreSizeAnnotation] = resource.NewQuantity(*size, resource.BinarySI).String()
	}
	return known
}

// Progress reports whether a snapshot is ready. Errors of controllers and the driver do not end the operation, because
// they try again.
func (a *volumeSnapshots) Progress(
	ctx context.Context, input *biav2.ProgressInput,
) (framework.OperationProgress, error) {
	namespace, name, started, err := parse(input.OperationID)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	now := time.Now()
	progress := framework.OperationProgress{Started: started, Updated: now}
	vs, content, err := a.snapshots.look(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		progress.Completed, progress.Err = true, fmt.Sprintf("VolumeSnapshot %s/%s or its content was deleted before it "+
			"was ready", namespace, name)
	case err != nil:
		return progress, err
	case vs.DeletionTimestamp != nil:
		progress.Completed, progress.Err = true, fmt.Sprintf("VolumeSnapshot %s/%s is being deleted, it was not ready%s",
			namespace, name, because(trouble(vs, content)))
	case isReady(vs):
		progress.Completed = true
	default:
		progress.Description = cmp.Or(trouble(vs, content), "the snapshot is not ready to use")
	}
	return progress, nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Cancel removes a snapshot that is not ready in time, or that nobody waits for any more.
func (a *volumeSnapshots) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	namespace, name, _, err := parse(input.OperationID)
	if err != nil {
		return err
	}
	vs, _, err := a.snapshots.look(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if isReady(vs) {
		return nil // the operation has ended
	}
	return a.snapshots.drop(ctx, vs)
}

// parse returns what an operation is of: namespace and name of a snapshot, and its start.
func parse(id string) (namespace, name string, started time.Time, err error) {
	parts := strings.Split(id, "/")
	if len(parts) == 3 {
		started, err = time.Parse(time.RFC3339, parts[2])
	}
	if len(parts) != 3 || err != nil {
		return "", "", started, framework.NotFound("%q is not the id of an operation, want namespace/name/time of a "+
			"VolumeSnapshot", id)
	}
	return parts[0], parts[1], started, nil
}
