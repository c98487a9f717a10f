package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewClaims returns velero.io/csi-pvc-backupper. It takes a snapshot of the volume of a bound claim, if that is one of
// a CSI driver, and adds it to the backup, or starts moving its data to the backup storage (move.go). It returns when
// the storage system has a handle for the snapshot, which it may still be completing.
func NewClaims(cluster Cluster) (biav2.BackupItemAction, error) {
	return &claims{cluster: cluster, snapshots: snapshots{cluster}, groups: groups{cluster: cluster}}, nil
}

type claims struct {
	cluster   Cluster
	snapshots snapshots
	groups    groups
	agents    agentpods.Watch
}

func (*claims) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (a *claims) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	claim, log := input.Item, framework.Log(ctx).With("namespace", input.Item.GetNamespace(), "name", input.Item.GetName())
	phase, err := field.Text(claim.Object, "status", "phase")
	if err != nil || isFinalizing(input.Backup) {
		return nil, err
	}
	volume, err := field.Text(claim.Object, "spec", "volumeName")
	if err != nil {
		return nil, err
	}
	if phase != "Bound" || volume == "" {
		log.Info("the claim is not bound, there is no volume to take a snapshot of")
		return nil, nil
	}
	pv, err := a.cluster.PersistentVolume(ctx, volume)
	if err != nil {
		return nil, err
	}
	if !isBoundTo(pv, claim) {
		return nil, fmt.Errorf("volume %s, which the claim names, is bound to another claim, so no snapshot is taken", volume)
	}
	if pv.Spec.CSI == nil {
		annotate(claim, map[string]string{velerov1.SkippedNoCSIPVAnnotation: "true"})
		return biav2.NewExecuteOutput(claim), nil
	}
	class, err := field.Text(claim.Object, "spec", "storageClassName")
	if err != nil {
		return nil, err
	}
	if class == "" {
		return nil, fmt.Errorf("volume %s of CSI driver %s cannot be restored from a snapshot, because its claim has no "+
			"storage class; leave it out by a volume policy or snapshotVolumes=false",
			volume, pv.Spec.CSI.Driver)
	}
	if moves(input.Backup) {
		if err := checkAgents(ctx, a.cluster, input.Backup.Namespace, moverFor(input.Backup)); err != nil {
			return nil, err
		}
	}
	vs, content, err := a.snapshot(ctx, input.Backup, claim, pv.Spec.CSI.Driver)
	if err != nil {
		return nil, err
	}
	log.Info("took a snapshot of the volume", "volumeSnapshot", vs.Name, "handle", *content.Status.SnapshotHandle)
	if err := growTo(claim, content); err != nil {
		return nil, err
	}
	labels := claim.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[velerov1.VolumeSnapshotLabel], labels[velerov1.BackupNameLabel] = vs.Name, velerov1.ValidLabelValue(
		input.Backup.Name,
	)
	claim.SetLabels(labels)
	annotate(claim, map[string]string{velerov1.VolumeSnapshotLabel: vs.Name,
		velerov1.MustIncludeAdditionalItemsAnnotation: "true"})
	if moves(input.Backup) {
		upload, err := a.move(ctx, input.Backup, claim, vs, content)
		if err != nil {
			return nil, a.snapshots.removeLate(ctx, vs, err)
		}
		annotate(claim, map[string]string{velerov1.DataUploadNameAnnotation: input.Backup.Namespace + "/" + upload})
		return biav2.NewExecuteOutput(claim).WithOperation(uploadOperation(input.Backup, claim.GetUID()),
			uploadItem(input.Backup.Namespace, upload)), nil
	}
	return biav2.NewExecuteOutput(claim).WithItems(of(snapshotsResource, vs.Namespace, vs.Name)), nil
}

// isBoundTo reports whether a volume is bound to a claim. Who creates a claim can name any volume.
func isBoundTo(pv *corev1.PersistentVolume, claim metav1.Object) bool {
	ref := pv.Spec.ClaimRef
	return ref == nil || ref.Namespace == claim.GetNamespace() && ref.Name == claim.GetName() &&
		(ref.UID == "" || ref.UID == claim.GetUID())
}

// snapshot takes a snapshot of a claim, and waits for its handle. After an error there is none.
func (a *claims) snapshot(
	ctx context.Context, b *velerov1.Backup, claim *unstructured.Unstructured, driver string,
) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, error) {
	vs, err := a.take(ctx, b, claim, driver)
	if err != nil {
		return nil, nil, err
	}
	content, err := a.snapshots.await(ctx, vs, cmp.Or(b.Spec.CSISnapshotTimeout.Duration, defaultTimeout))
	if err != nil {
		return nil, nil, a.snapshots.removeLate(ctx, vs, err)
	}
	return vs, content, nil
}

// take takes a snapshot of a claim, alone or with the other claims of its group.
func (a *claims) take(
	ctx context.Context, b *velerov1.Backup, claim *unstructured.Unstructured, driver string,
) (*snapshotv1.VolumeSnapshot, error) {
	if of := groupOf(b, claim); of != nil {
		return a.groups.member(ctx, of, claim)
	}
	known, err := a.snapshots.classes(ctx)
	if err != nil {
		return nil, err
	}
	class, err := singly.choose(driver, claim.GetAnnotations(), b, known)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, claim.GetLabels())
	delete(labels, velerov1.AsyncOperationIDLabel) // says whose the snapshot is
	if moves(b) {
		labels[velerov1.AsyncOperationIDLabel] = uploadOperation(b, claim.GetUID())
	}
	return a.snapshots.take(ctx, b, claim.GetNamespace(), claim.GetName(), class, labels)
}

// growTo makes a claim at least as large as what is restored from its snapshot, which some drivers round up.
func growTo(claim *unstructured.Unstructured, content *snapshotv1.VolumeSnapshotContent) error {
	if content.Status.RestoreSize == nil {
		return nil
	}
	text, err := field.Text(claim.Object, "spec", "resources", "requests", "storage")
	if err != nil {
		return err
	}
	size := *resource.NewQuantity(*content.Status.RestoreSize, resource.BinarySI)
	requested, err := resource.ParseQuantity(text)
	if err != nil {
		return errors.Join(errors.New("spec.resources.requests.storage is not a quantity"), err)
	}
	if size.Cmp(requested) <= 0 {
		return nil
	}
	return unstructured.SetNestedField(claim.Object, size.String(), "spec", "resources", "requests", "storage")
}

func annotate(item *unstructured.Unstructured, more map[string]string) {
	annotations := item.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range more {
		annotations[key] = value
	}
	item.SetAnnotations(annotations)
}
