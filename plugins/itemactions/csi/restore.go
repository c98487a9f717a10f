package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// wantsNoVolumes reports whether a restore leaves the data of volumes alone.
func wantsNoVolumes(r *velerov1.Restore) bool { return r.Spec.RestorePVs != nil && !*r.Spec.RestorePVs }

// restoredName returns the name of a restored snapshot, and of its content, which no other restore uses.
func restoredName(r *velerov1.Restore, snapshot string) string {
	sum := sha256.Sum256([]byte(string(r.UID) + "/" + snapshot))
	return hex.EncodeToString(sum[:])
}

// NewRestoredClaims returns velero.io/csi-pvc-restorer. A claim whose volume the backup has a snapshot of gets the
// restored snapshot as its source, unless it exists. If the backup has moved the data of the snapshot, it is moved back
// (download.go).
func NewRestoredClaims(cluster Cluster) (riav2.RestoreItemAction, error) {
	return &restoredClaims{cluster: cluster}, nil
}

type restoredClaims struct {
	cluster Cluster
	agents  agentpods.Watch
}

func (*restoredClaims) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (a *restoredClaims) Execute(ctx context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	claim, stored := input.Item, input.ItemFromBackup
	snapshot, namespace := stored.GetAnnotations()[velerov1.VolumeSnapshotLabel], input.Restore.Spec.TargetNamespace(
		stored.GetNamespace(),
	)
	_, uploaded := stored.GetAnnotations()[velerov1.DataUploadNameAnnotation]
	if snapshot == "" && !uploaded {
		return nil, nil
	}
	if exists, err := a.cluster.ClaimExists(ctx, namespace, stored.GetName()); err != nil || exists {
		return nil, err
	}
	spec, err := field.Object(claim.Object, "spec")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"volumeName", "dataSource", "dataSourceRef"} {
		delete(spec, name)
	}
	output := riav2.NewExecuteOutput(claim)
	if wantsNoVolumes(input.Restore) {
		return output, nil
	}
	if uploaded { // by this backup, or the claim was restored from one before
		backup, err := backupOf(ctx, a.cluster, input.Restore)
		if err != nil {
			return nil, err
		}
		if moves(backup) {
			return a.download(ctx, input, backup, spec)
		}
	}
	if snapshot == "" {
		return nil, nil
	}
	spec["dataSource"] = map[string]any{"apiGroup": snapshotv1.GroupName, "kind": "VolumeSnapshot",
		"name": restoredName(input.Restore, snapshot)}
	annotate(claim, map[string]string{velerov1.MustIncludeAdditionalItemsRestoreAnnotation: "true"})
	return output.WithItems(of(snapshotsResource, stored.GetNamespace(), snapshot)), nil
}

// NewRestoredSnapshots returns velero.io/csi-volumesnapshot-restorer. It binds a restored snapshot to a content that
// exists already: the restored one. One that was taken in a group waits until its content has forgotten that.
func NewRestoredSnapshots(cluster Cluster) (riav2.RestoreItemAction, error) {
	return &restoredSnapshots{cluster: cluster}, nil
}

type restoredSnapshots struct {
	riav2.ExecuteOnly
	cluster Cluster
}

func (*restoredSnapshots) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return all(snapshotsResource), nil
}

func (*restoredSnapshots) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	if wantsNoVolumes(input.Restore) {
		return &riav2.ExecuteOutput{SkipRestore: true}, nil
	}
	content, err := field.Text(input.ItemFromBackup.Object, "status", "boundVolumeSnapshotContentName")
	if err != nil {
		return nil, err
	}
	if content == "" {
		return nil, fmt.Errorf("the snapshot was not bound to a VolumeSnapshotContent when it was backed up")
	}
	snapshot := input.Item
	name := restoredName(input.Restore, input.ItemFromBackup.GetName())
	snapshot.SetName(name)
	// Without a class, the snapshot does not depend on one in this cluster.
	snapshot.Object["spec"] = map[string]any{"source": map[string]any{"volumeSnapshotContentName": name}}
	annotate(snapshot, map[string]string{
		velerov1.VSCDeletionPolicyAnnotation:                 string(snapshotv1.VolumeSnapshotContentRetain),
		velerov1.MustIncludeAdditionalItemsRestoreAnnotation: "true",
	})
	belongTo(snapshot, input.Restore)
	output := riav2.NewExecuteOutput(snapshot).WithItems(of(contentsResource, "", content))
	if snapshot.GetAnnotations()[velerov1.VolumeGroupSnapshotHandleAnnotation] != "" {
		output.WithItemsWait()
	}
	return output, nil
}

// AreAdditionalItemsReady implements riav2.RestoreItemAction.
func (a *restoredSnapshots) AreAdditionalItemsReady(
	ctx context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	api, err := a.cluster.Snapshots()
	if err != nil {
		return nil, err
	}
	list, err := api.VolumeSnapshotContents().List(ctx,
		metav1.ListOptions{LabelSelector: velerov1.RestoreUIDLabel + "=" + string(input.Restore.UID)})
	if err != nil {
		return nil, fmt.Errorf("list the restored VolumeSnapshotContents: %w", err)
	}
	for i := range list.Items {
		content := &list.Items[i]
		stored := content.Annotations[velerov1.StoredContentAnnotation]
		isWanted := func(item framework.ResourceIdentifier) bool { return item.Name == stored }
		if !slices.ContainsFunc(input.AdditionalItems, isWanted) {
			continue
		}
		if content.Status == nil || content.Status.ReadyToUse == nil || !*content.Status.ReadyToUse {
			return &riav2.AreAdditionalItemsReadyOutput{}, nil
		}
		if err := leaveGroup(ctx, api, content); err != nil {
			return nil, err
		}
	}
	return &riav2.AreAdditionalItemsReadyOutput{Ready: true}, nil
}

// NewRestoredContents returns velero.io/csi-volumesnapshotcontent-restorer. A restored content stands for the snapshot
// that the storage system has, which stays there when the content is deleted.
func NewRestoredContents(cluster Cluster) (riav2.RestoreItemAction, error) {
	return &restoredContents{cluster: cluster}, nil
}

type restoredContents struct {
	riav2.ExecuteOnly
	cluster Cluster
}

func (*restoredContents) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return all(contentsResource), nil
}

func (a *restoredContents) Execute(ctx context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	if wantsNoVolumes(input.Restore) {
		return &riav2.ExecuteOutput{SkipRestore: true}, nil
	}
	content, stored := input.Item, input.ItemFromBackup.Object
	handle, err := field.Text(stored, "status", "snapshotHandle")
	if err != nil {
		return nil, err
	}
	snapshot, err := field.Text(stored, "spec", "volumeSnapshotRef", "name")
	if err != nil {
		return nil, err
	}
	namespace, err := field.Text(stored, "spec", "volumeSnapshotRef", "namespace")
	if err != nil {
		return nil, err
	}
	driver, err := field.Text(stored, "spec", "driver")
	if err != nil {
		return nil, err
	}
	spec, err := field.Object(content.Object, "spec")
	if err != nil {
		return nil, err
	}
	if handle == "" || snapshot == "" {
		return nil, fmt.Errorf("the content has no handle or no snapshot: it was not complete when it was backed up")
	}
	name := restoredName(input.Restore, snapshot)
	content.SetName(name)
	belongTo(content, input.Restore)
	annotate(content, map[string]string{velerov1.StoredContentAnnotation: input.ItemFromBackup.GetName()})
	spec["volumeSnapshotRef"] = map[string]any{
		"apiVersion": snapshotv1.SchemeGroupVersion.String(), "kind": "VolumeSnapshot",
		"namespace": input.Restore.Spec.TargetNamespace(namespace), "name": name,
	}
	spec["source"] = map[string]any{"snapshotHandle": handle}
	spec["deletionPolicy"] = string(snapshotv1.VolumeSnapshotContentRetain)
	if err := a.setClass(ctx, spec, driver); err != nil {
		return nil, err
	}
	output := riav2.NewExecuteOutput(content).WithItems(secretsOf(input.ItemFromBackup, deletionSecret)...)
	return output, nil
}

// setClass makes the class one of the driver in this cluster, because some drivers find their credentials by it; none
// if there is none.
func (a *restoredContents) setClass(ctx context.Context, spec map[string]any, driver string) error {
	known, err := snapshots{a.cluster}.classes(ctx)
	if err != nil {
		return err
	}
	delete(spec, "volumeSnapshotClassName")
	if i := slices.IndexFunc(known, func(c class) bool { return c.driver == driver }); i >= 0 {
		spec["volumeSnapshotClassName"] = known[i].Name
	}
	return nil
}

// belongTo labels a snapshot or its content with the restore. It removes the label of the backup, so that only the
// restore cleans up.
func belongTo(item *unstructured.Unstructured, r *velerov1.Restore) {
	labels := item.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, velerov1.BackupUIDLabel)
	labels[velerov1.RestoreUIDLabel] = string(r.UID)
	item.SetLabels(labels)
}
