package volumes

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// TestForgedRecordsDeleteNoSnapshots has somebody who may write ConfigMaps name snapshots that the server is to delete.
func TestForgedRecordsDeleteNoSnapshots(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().Build()
	records := NewRecords(c, c, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))), hclog.NewNullLogger())
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "b", UID: "u"}}
	record, err := records.Begin(t.Context(), b, &Snapshot{})
	require.NoError(t, err)
	require.NoError(t, record.Taken(t.Context(), "snap-1"))
	require.NoError(t, records.BeginCSI(t.Context(), b))
	found, damaged, err := records.Of(t.Context(), "u")
	require.NoError(t, err)
	require.Empty(t, damaged)
	require.Len(t, found, 2)

	var all corev1.ConfigMapList
	require.NoError(t, c.List(t.Context(), &all))
	for i := range all.Items {
		cm := &all.Items[i]
		other := cm.DeepCopy()
		other.Name, other.ResourceVersion, other.Labels[OwnerLabel] = "copy-of-"+cm.Name, "", "v"
		require.NoError(t, c.Create(t.Context(), other)) // for another backup
		before := cm.DeepCopy()
		cm.Data["snapshotID"] = "snap-of-others"
		require.NoError(t, c.Patch(t.Context(), cm, client.MergeFrom(before)))
	}
	for _, uid := range []string{"u", "v"} {
		found, damaged, err = records.Of(t.Context(), types.UID(uid))
		require.NoError(t, err)
		require.Empty(t, found, uid)
		require.Len(t, damaged, 2, uid)
		require.ErrorContains(t, damaged[0], "has no proof that this server has written it")
	}
}

// TestForgedVolumesAreNotRestored has somebody who may write ConfigMaps name a volume that a restore is to use.
func TestForgedVolumesAreNotRestored(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().Build()
	records := NewRecords(c, c, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))), hclog.NewNullLogger())
	restore := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "r", UID: "u"}}
	note, err := records.Volume(t.Context(), restore, "pv", &Snapshot{})
	require.NoError(t, err)
	require.NoError(t, note.Made(t.Context(), "own"))
	again, err := records.Volume(t.Context(), restore, "pv", &Snapshot{})
	require.NoError(t, err)
	require.Equal(t, "own", again.ID)

	var cm corev1.ConfigMap
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "velero", Name: note.configMap}, &cm))
	cm.Data["volumeID"] = "of-others"
	require.NoError(t, c.Update(t.Context(), &cm))
	_, err = records.Volume(t.Context(), restore, "pv", &Snapshot{})
	require.ErrorContains(t, err, "which no server has recorded there")
}
