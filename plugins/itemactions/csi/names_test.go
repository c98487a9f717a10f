package csi

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneAPI is a cluster with snapshots only.
type oneAPI struct {
	Cluster
	api snapshotclient.SnapshotV1Interface
}

func (c oneAPI) Snapshots() (snapshotclient.SnapshotV1Interface, error) { return c.api, nil }

// TestForeignContentsAreNotUsed has VolumeSnapshots that name a content. It is read, and its policy is changed, only if it
// names the VolumeSnapshot, too.
func TestForeignContentsAreNotUsed(t *testing.T) {
	t.Parallel()
	named := "named"
	meta := metav1.ObjectMeta{Namespace: "tenant", Name: "s", UID: "1"}
	for name, vs := range map[string]*snapshotv1.VolumeSnapshot{
		"status": {ObjectMeta: meta, Status: &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &named}},
		"both": {ObjectMeta: meta, Status: &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &named},
			Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &named}}},
	} {
		for _, ref := range []corev1.ObjectReference{
			{Namespace: "production", Name: "s", UID: "1"}, {Namespace: "tenant", Name: "s", UID: "0"},
			{Namespace: "tenant", Name: "s", UID: "1"},
		} {
			t.Run(name+" of "+ref.Namespace+string(ref.UID), func(t *testing.T) {
				t.Parallel()
				api := fake.NewSimpleClientset(vs, &snapshotv1.VolumeSnapshotContent{ //nolint:staticcheck // it has no other
					ObjectMeta: metav1.ObjectMeta{Name: named}, Spec: snapshotv1.VolumeSnapshotContentSpec{VolumeSnapshotRef: ref,
						DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain}}).SnapshotV1()
				s := snapshots{oneAPI{api: api}}
				own := ref.UID == "1" && ref.Namespace == "tenant"
				_, content, err := s.look(t.Context(), meta.Namespace, meta.Name)
				require.Equal(t, own, err == nil && content != nil, "%v", err)
				require.NoError(t, s.drop(t.Context(), vs))
				after, err := api.VolumeSnapshotContents().Get(t.Context(), named, metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, own, after.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete)
			})
		}
	}
}

func TestVolumesOfClaims(t *testing.T) {
	t.Parallel()
	claim := &metav1.ObjectMeta{Namespace: "a", Name: "c", UID: "1"}
	for want, refs := range map[bool][]*corev1.ObjectReference{
		true:  {nil, {Namespace: "a", Name: "c", UID: "1"}, {Namespace: "a", Name: "c"}},
		false: {{Namespace: "b", Name: "c", UID: "1"}, {Namespace: "a", Name: "d"}, {Namespace: "a", Name: "c", UID: "2"}},
	} {
		for _, ref := range refs {
			pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: ref}}
			require.Equal(t, want, isBoundTo(pv, claim), "%v", ref)
		}
	}
}
