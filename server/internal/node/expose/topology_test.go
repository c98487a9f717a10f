package expose

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
)

// TestPodsThatExposeVolumesRunWhereTheSourceCan exposes the snapshot of a volume of one zone. As in Velero, its class has
// to choose the place of a volume by the pod.
func TestPodsThatExposeVolumesRunWhereTheSourceCan(t *testing.T) {
	t.Parallel()
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	rack := corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpExists}
	local := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {MatchExpressions: []corev1.NodeSelectorRequirement{rack}},
	}}
	class := func(name string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, VolumeBindingMode: &mode}
	}
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	volume := func(name string, nodes *corev1.VolumeNodeAffinity) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{NodeAffinity: nodes}}
	}
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, storagev1.AddToScheme(scheme))
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		class("late", storagev1.VolumeBindingWaitForFirstConsumer), class("early", storagev1.VolumeBindingImmediate),
		claim("data", "pv-1"), claim("anywhere", "pv-2"), claim("unbound", ""),
		volume("pv-1", &corev1.VolumeNodeAffinity{Required: local}), volume("pv-2", nil),
	).Build()
	u := Uploads{&Volumes{Cluster: &run.Cluster{Live: api},
		Agent: &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}},
		Settings: &settings.Settings{LoadAffinity: []settings.LoadAffinity{{NodeSelector: metav1.LabelSelector{
			MatchLabels: map[string]string{"disk": "ssd"},
		}}}}}}
	for _, tt := range []struct {
		class, claim string
		want         *corev1.NodeSelector
	}{
		{"late", "data", local}, {"early", "data", nil}, {"gone", "data", nil}, {"late", "anywhere", nil},
		{"late", "unbound", nil}, {"late", "gone", nil},
	} {
		load := &upload{owner: owner{Object: &v2alpha1.DataUpload{}}, spec: &v2alpha1.DataUploadSpec{
			CSISnapshot: &v2alpha1.CSISnapshotSpec{StorageClass: tt.class}, SourceNamespace: "shop", SourcePVC: tt.claim,
		}}
		found, err := u.topology(t.Context(), load)
		require.NoError(t, err)
		require.Equal(t, tt.want, found, "%+v", tt)

		pod := u.pod(holder{claim: claim("exposed", ""), topology: found})
		terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		disk := corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}
		for _, term := range terms {
			require.Contains(t, term.MatchExpressions, disk, "what is configured holds in each of them")
		}
		if tt.want == nil {
			require.Len(t, terms, 1)
			continue
		}
		require.Len(t, terms, 2)
		require.Contains(t, terms[0].MatchExpressions, zone)
		require.Contains(t, terms[1].MatchExpressions, rack)
	}
	require.Len(t, local.NodeSelectorTerms[0].MatchExpressions, 1, "the volume is not changed")
}
