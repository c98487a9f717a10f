package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// csiSnapshot is the kind of the snapshots of CSI drivers.
var csiSnapshot = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}

// RestoredFrom returns of what the volumes of a restore were made, sorted, as the content of the file volumeinfo. It is
// never nil. claims are those of the restore in its resource list, and infos those of the volumes that are known. What
// cannot be found out is in the error.
func (h *Hub) RestoredFrom(
	ctx context.Context, restore *velerov1.Restore, claims iter.Seq[string], infos []RestoreVolumeInfo,
) ([]RestoreVolumeInfo, error) {
	v := restoredInfos{ctx: ctx, reader: h.Live, signed: func(load client.Object) (bool, error) {
		return h.Keys.Signed(ctx, operation.OfRestore, restore.UID, load)
	}, all: append([]RestoreVolumeInfo{}, infos...)}
	labels := client.MatchingLabels{velerov1.RestoreNameLabel: velerov1.ValidLabelValue(restore.Name)}
	err := errors.Join(
		v.readClaims(claims, labels),
		v.addDownloads(h.Namespace, labels),
		v.addPodVolumes(h.Namespace, labels),
	)
	slices.SortFunc(v.all, func(a, b RestoreVolumeInfo) int {
		return cmp.Or(cmp.Compare(a.PVCNamespace, b.PVCNamespace), cmp.Compare(a.PVCName, b.PVCName),
			cmp.Compare(a.PVName, b.PVName))
	})
	return v.all, err
}

// restoredInfos collects of what volumes were made.
type restoredInfos struct {
	ctx    context.Context
	reader client.Reader
	signed func(load client.Object) (bool, error) // whether the restore has created a load
	all    []RestoreVolumeInfo
	bound  map[string]string // persistent volumes by "namespace/claim"
}

// readClaims reads the claims that the restore has created, and adds those that are made of CSI snapshots. restored is
// their part of the resource list.
func (v *restoredInfos) readClaims(restored iter.Seq[string], labels client.MatchingLabels) error {
	v.bound = map[string]string{}
	var namespaces []string
	for entry := range restored {
		if namespace, name, _ := strings.Cut(entry, "/"); strings.HasSuffix(name, "(created)") &&
			!slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	var errs []error
	for _, namespace := range namespaces {
		var claims corev1.PersistentVolumeClaimList
		if err := v.reader.List(v.ctx, &claims, client.InNamespace(namespace), labels); err != nil {
			errs = append(errs, fmt.Errorf("list the persistent volume claims of namespace %s: %w", namespace, err))
		}
		for i := range claims.Items {
			claim := &claims.Items[i]
			v.bound[claim.Namespace+"/"+claim.Name] = claim.Spec.VolumeName
			errs = append(errs, v.addSnapshot(claim))
		}
	}
	return errors.Join(errs...)
}

// addSnapshot adds a claim if it is made of a CSI snapshot.
func (v *restoredInfos) addSnapshot(claim *corev1.PersistentVolumeClaim) error {
	source := claim.Spec.DataSource
	if source == nil || source.Kind != csiSnapshot.Kind || source.APIGroup == nil ||
		*source.APIGroup != csiSnapshot.Group {
		return nil
	}
	taken := &unstructured.Unstructured{}
	taken.SetGroupVersionKind(csiSnapshot)
	if err := v.reader.Get(v.ctx, client.ObjectKey{Namespace: claim.Namespace, Name: source.Name}, taken); err != nil {
		return fmt.Errorf("get the snapshot of persistent volume claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	content, _, _ := unstructured.NestedString(taken.Object, "spec", "source", "volumeSnapshotContentName")
	annotations := taken.GetAnnotations()
	v.all = append(v.all, RestoreVolumeInfo{
		PVCNamespace: claim.Namespace, PVCName: claim.Name, PVName: claim.Spec.VolumeName, RestoreMethod: CSI,
		CSI: &CSIInfo{
			SnapshotHandle: annotations[velerov1.VolumeSnapshotHandleAnnotation],
			Driver:         annotations[velerov1.DriverNameAnnotation], VSCName: content,
			Size: restoreSize(taken),
		},
	})
	return nil
}

// restoreSize returns the size of a CSI snapshot in bytes, 0 if it is not known.
func restoreSize(taken *unstructured.Unstructured) int64 {
	text, _, _ := unstructured.NestedString(taken.Object, "status", "restoreSize")
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return size.Value()
}

// addDownloads adds the volumes whose data is moved back.
func (v *restoredInfos) addDownloads(namespace string, labels client.MatchingLabels) error {
	var list v2alpha1.DataDownloadList
	if err := v.reader.List(v.ctx, &list, client.InNamespace(namespace), labels); err != nil {
		return fmt.Errorf("list the DataDownloads: %w", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		if signed, err := v.signed(d); err != nil || !signed {
			if err != nil {
				return err
			}
			continue
		}
		to := d.Spec.TargetVolume
		v.all = append(v.all, RestoreVolumeInfo{
			PVCNamespace: to.Namespace, PVCName: to.PVC, PVName: cmp.Or(to.PV, v.bound[to.Namespace+"/"+to.PVC]),
			RestoreMethod: CSI, SnapshotDataMoved: true,
			DataMovement: &MovementInfo{
				DataMover: velerov1.StoredDataMover(d.Spec.DataMover), UploaderType: string(velerov1.EngineOf(d.Spec.DataMover)),
				SnapshotHandle: d.Spec.SnapshotID,
				OperationID:    d.Labels[velerov1.AsyncOperationIDLabel], Size: d.Spec.SnapshotSize,
			},
		})
	}
	return nil
}

// addPodVolumes adds the claims of pods whose data is restored from file system backups. Velero leaves out volumes
// without a claim, too.
func (v *restoredInfos) addPodVolumes(namespace string, labels client.MatchingLabels) error {
	var list velerov1.PodVolumeRestoreList
	if err := v.reader.List(v.ctx, &list, client.InNamespace(namespace), labels); err != nil {
		return fmt.Errorf("list the PodVolumeRestores: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if signed, err := v.signed(&list.Items[i]); err != nil || !signed {
			errs = append(errs, err)
			continue
		}
		s := &list.Items[i].Spec
		var pod corev1.Pod
		if err := v.reader.Get(v.ctx, client.ObjectKey{Namespace: s.Pod.Namespace, Name: s.Pod.Name}, &pod); err != nil {
			errs = append(errs, fmt.Errorf("get the pod of PodVolumeRestore %s: %w", list.Items[i].Name, err))
			continue
		}
		for i := range pod.Spec.Volumes {
			of := &pod.Spec.Volumes[i]
			claim := podclaims.Name(pod.Name, of)
			if of.Name != s.Volume || claim == "" {
				continue
			}
			v.all = append(v.all, RestoreVolumeInfo{
				PVCNamespace: s.Pod.Namespace, PVCName: claim, PVName: v.bound[s.Pod.Namespace+"/"+claim],
				RestoreMethod: PodVolumeRestore,
				PodVolume: &PodInfo{
					SnapshotHandle: s.SnapshotID, UploaderType: string(s.UploaderType), VolumeName: s.Volume, PodName: s.Pod.Name,
					PodNamespace: s.Pod.Namespace,
				},
			})
		}
	}
	return errors.Join(errs...)
}
