package volumes

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestNewVolumeIsLikeTheFormerOneInAnotherPlace(t *testing.T) {
	t.Parallel()
	type labels = map[string]string
	for name, row := range map[string]struct{ former, fresh, want labels }{
		"its own labels": {former: labels{"tier": "gold", "example.com/team": "ink"}, fresh: labels{"a": "b"},
			want: labels{"a": "b", "tier": "gold", "example.com/team": "ink"}},
		"a topology": {former: labels{"topology.kubernetes.io/zone": "old",
			"topology.kubernetes.io/region": "old"}, fresh: labels{"topology.kubernetes.io/zone": "new"},
			want: labels{"topology.kubernetes.io/zone": "new"}},
		"a topology of a driver": {former: labels{"topology.ebs.csi.aws.com/zone": "old", "topology.gke.io/zone": "old"}},
		"an old name of a zone": {former: labels{"failure-domain.beta.kubernetes.io/zone": "old",
			"kubernetes.io/hostname": "old"}},
		"a zone of somebody": {former: labels{"zone": "old", "example.com/region": "old"}},
		"one of the provisioner": {former: labels{"csi.example.com/array": "old", "node.csi.example.com/id": "old"},
			fresh: labels{"csi.example.com/array": "new"}, want: labels{"csi.example.com/array": "new"}},
		"one of another provisioner": {former: labels{"other-csi.example.com/array": "old"},
			want: labels{"other-csi.example.com/array": "old"}},
		"what servers act upon": {former: labels{"cleat.dev/data-download": "1", "velero.io/backup-uid": "1"}},
		"a changed one": {former: labels{"tier": "gold"}, fresh: labels{"tier": "default"},
			want: labels{"tier": "gold"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: row.fresh}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com"}
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			makeLike(pv, &PVInfo{Labels: row.former, ReclaimPolicy: "Retain"})
			require.Equal(t, row.want, pv.Labels)
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
			makeLike(pv, &PVInfo{})
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy,
				"the backup does not say which")
		})
	}
}

// TestVolumeOfAnotherClaimStays has a claim that names the volume of another one, as whoever creates a claim can.
func TestVolumeOfAnotherClaimStays(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]corev1.PersistentVolumeReclaimPolicy{
		"own": corev1.PersistentVolumeReclaimDelete, "other": corev1.PersistentVolumeReclaimRetain, "": corev1.PersistentVolumeReclaimRetain,
	} {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if uid != "" {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: uid}
		}
		api := fake.NewClientBuilder().WithObjects(pv).Build()
		h := &Hub{Client: api, Live: api}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "own"}}
		claim.Spec.VolumeName, claim.Status.Phase = "v", corev1.ClaimBound
		_, err := h.settleClaim(t.Context(), claim, &PVInfo{ReclaimPolicy: "Delete", Labels: map[string]string{"a": "b"}})
		require.NoError(t, err)
		require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(pv), pv))
		require.Equal(t, want, pv.Spec.PersistentVolumeReclaimPolicy, uid)
		require.Equal(t, uid == "own", pv.Labels["a"] == "b", uid)
	}
}
