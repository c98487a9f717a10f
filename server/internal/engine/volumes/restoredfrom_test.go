package volumes

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
)

// TestRestoredFromNamesWhatVolumesWereMadeOf has a claim of a CSI snapshot, one whose data is moved, one of a pod, and
// one without data.
func TestRestoredFromNamesWhatVolumesWereMadeOf(t *testing.T) {
	t.Parallel()
	const namespace = "velero"
	labels := map[string]string{velerov1.RestoreNameLabel: "r"}
	claim := func(name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec:       corev1.PersistentVolumeClaimSpec{DataSource: source, VolumeName: "pv-of-" + name},
		}
	}
	taken := func(name string) *corev1.TypedLocalObjectReference {
		return &corev1.TypedLocalObjectReference{APIGroup: &csiSnapshot.Group, Kind: csiSnapshot.Kind, Name: name}
	}
	vs := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"source": map[string]any{"volumeSnapshotContentName": "content"}}, "status": map[string]any{
			"restoreSize": "1Ki",
		},
	}}
	vs.SetGroupVersionKind(csiSnapshot)
	vs.SetNamespace(namespace)
	vs.SetName("vs")
	vs.SetAnnotations(map[string]string{velerov1.VolumeSnapshotHandleAnnotation: "handle",
		velerov1.DriverNameAnnotation: "csi.example.com"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pod"},
		}}},
	}}
	named := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	c := apiServer(t,
		vs, pod, claim("csi", taken("vs")), claim("broken", taken("none")), claim("moved", nil), claim("pod", nil),
		claim("plain", nil),
		&v2alpha1.DataDownload{
			ObjectMeta: named("dd", map[string]string{velerov1.RestoreNameLabel: "r", velerov1.AsyncOperationIDLabel: "op"}),
			Spec: v2alpha1.DataDownloadSpec{TargetVolume: v2alpha1.TargetVolumeSpec{Namespace: namespace, PVC: "moved"},
				SnapshotID: "repo"},
		},
		&v2alpha1.DataDownload{ObjectMeta: named("of-another", nil)},
		&velerov1.PodVolumeRestore{ObjectMeta: named("pvr", labels), Spec: velerov1.PodVolumeRestoreSpec{
			Pod: velerov1.ObjectReference{Namespace: namespace, Name: "db"}, Volume: "files", UploaderType: "kopia",
			SnapshotID: "files-id",
		}},
	)
	of := func(name string) string { return namespace + "/" + name + "(created)" }
	found, err := (&Hub{Live: c, Namespace: namespace}).RestoredFrom(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}},
		slices.Values([]string{of("csi"), of("broken"), of("moved"), of("pod"), of("plain"), "elsewhere/kept(skipped)"}),
		[]RestoreVolumeInfo{{PVName: "pv-1", RestoreMethod: Native, Native: &NativeInfo{SnapshotHandle: "s"}}})
	require.EqualError(t, err, `get the snapshot of persistent volume claim velero/broken: `+
		`volumesnapshots.snapshot.storage.k8s.io "none" not found`)
	require.Equal(t, []RestoreVolumeInfo{
		{PVName: "pv-1", RestoreMethod: Native, Native: &NativeInfo{SnapshotHandle: "s"}},
		{
			PVCNamespace: namespace, PVCName: "csi", PVName: "pv-of-csi", RestoreMethod: CSI,
			CSI: &CSIInfo{SnapshotHandle: "handle", Size: 1024, Driver: "csi.example.com", VSCName: "content"},
		},
		{
			PVCNamespace: namespace, PVCName: "moved", PVName: "pv-of-moved", RestoreMethod: CSI,
			SnapshotDataMoved: true,
			DataMovement: &MovementInfo{DataMover: "velero", UploaderType: "kopia", SnapshotHandle: "repo",
				OperationID: "op"},
		},
		{
			PVCNamespace: namespace, PVCName: "pod", PVName: "pv-of-pod", RestoreMethod: PodVolumeRestore,
			PodVolume: &PodInfo{SnapshotHandle: "files-id", UploaderType: "kopia", VolumeName: "files", PodName: "db",
				PodNamespace: namespace},
		},
	}, found)
}
