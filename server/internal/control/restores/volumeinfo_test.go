package restores

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// TestVolumeInfoNamesWhatVolumesWereMadeOf has a claim of a CSI snapshot, one whose data is moved, one of a pod, and
// one without data.
func TestVolumeInfoNamesWhatVolumesWereMadeOf(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	labels := map[string]string{velerov1.RestoreNameLabel: "r"}
	claim := func(name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, DataSource: source, VolumeName: "pv-of-" + name,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		}
	}
	taken := func(name string) *corev1.TypedLocalObjectReference {
		return &corev1.TypedLocalObjectReference{APIGroup: &csiSnapshot.Group, Kind: csiSnapshot.Kind, Name: name}
	}
	defineSnapshots(t, c)
	vs := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"source": map[string]any{"volumeSnapshotContentName": "content"}}, "status": map[string]any{
			"restoreSize": "1Ki",
		},
	}}
	vs.SetGroupVersionKind(csiSnapshot)
	vs.SetName("vs")
	vs.SetAnnotations(map[string]string{velerov1.VolumeSnapshotHandleAnnotation: "handle",
		velerov1.DriverNameAnnotation: "csi.example.com"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "none"}},
		Volumes: []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pod"},
		}}},
	}}
	c.Add(t, vs, claim("csi", taken("vs")), claim("broken", taken("none")), claim("moved", nil), claim("pod", nil),
		claim("plain", nil), pod)
	c.Add(t, &v2alpha1.DataDownload{
		ObjectMeta: metav1.ObjectMeta{Name: "dd", Labels: map[string]string{velerov1.RestoreNameLabel: "r",
			velerov1.AsyncOperationIDLabel: "op"}},
		Spec: v2alpha1.DataDownloadSpec{TargetVolume: v2alpha1.TargetVolumeSpec{Namespace: c.Namespace, PVC: "moved"},
			SnapshotID: "repo"},
	}, &v2alpha1.DataDownload{ObjectMeta: metav1.ObjectMeta{Name: "of-another"}})
	c.Add(t, &velerov1.PodVolumeRestore{
		ObjectMeta: metav1.ObjectMeta{Name: "pvr", Labels: labels},
		Spec: velerov1.PodVolumeRestoreSpec{
			Pod: velerov1.ObjectReference{Namespace: c.Namespace, Name: "db"}, Volume: "files", UploaderType: "kopia",
			SnapshotID: "files-id",
		},
	})
	w := &work{
		Controller: &Controller{Cluster: c.Cluster}, run: &run.Run{Final: t.Context()},
		object: &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}},
	}
	of := func(name string) string { return c.Namespace + "/" + name + "(created)" }
	result := &restore.Result{
		ResourceList: map[string][]string{"v1/PersistentVolumeClaim": {of("csi"), of("broken"), of("moved"), of("pod"),
			of("plain"), "elsewhere/kept(skipped)"}},
		FromSnapshots: []volumes.RestoreVolumeInfo{{PVName: "pv-1", RestoreMethod: volumes.Native,
			Native: &volumes.NativeInfo{SnapshotHandle: "s"}}},
	}
	require.Equal(t, []volumes.RestoreVolumeInfo{
		{PVName: "pv-1", RestoreMethod: volumes.Native, Native: &volumes.NativeInfo{SnapshotHandle: "s"}},
		{
			PVCNamespace: c.Namespace, PVCName: "csi", PVName: "pv-of-csi", RestoreMethod: volumes.CSI,
			CSI: &volumes.CSIInfo{SnapshotHandle: "handle", Size: 1024, Driver: "csi.example.com", VSCName: "content"},
		},
		{
			PVCNamespace: c.Namespace, PVCName: "moved", PVName: "pv-of-moved", RestoreMethod: volumes.CSI,
			SnapshotDataMoved: true,
			DataMovement: &volumes.MovementInfo{DataMover: "velero", UploaderType: "kopia", SnapshotHandle: "repo",
				OperationID: "op"},
		},
		{
			PVCNamespace: c.Namespace, PVCName: "pod", PVName: "pv-of-pod", RestoreMethod: volumes.PodVolumeRestore,
			PodVolume: &volumes.PodInfo{SnapshotHandle: "files-id", UploaderType: "kopia", VolumeName: "files", PodName: "db",
				PodNamespace: c.Namespace},
		},
	}, w.volumeInfo(result))
	require.Len(t, result.Results.Warnings.Velero, 1)
	require.Contains(t, result.Results.Warnings.Velero[0], "get the snapshot of persistent volume claim "+c.Namespace+
		"/broken")
}

// defineSnapshots installs a definition of CSI snapshots.
func defineSnapshots(t *testing.T, c *controllertest.Cluster) {
	t.Helper()
	keepAll := true
	require.NoError(t, c.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "volumesnapshots." +
				csiSnapshot.Group, Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: csiSnapshot.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "volumesnapshots", Singular: "volumesnapshot",
				Kind: csiSnapshot.Kind, ListKind: "VolumeSnapshotList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: csiSnapshot.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: &keepAll}},
			}},
		},
	}))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(csiSnapshot)
	require.Eventually(t, func() bool { return c.List(t.Context(), list, client.InNamespace(c.Namespace)) == nil },
		5*time.Minute, 50*time.Millisecond)
}
