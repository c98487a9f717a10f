package volumes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// TestAcceptSecurity_ForeignNames has a tenant who names the objects of another namespace in specs, statuses and labels
// that he may write. A backup, a restore and a deletion neither delete, nor change, nor store them.
func TestAcceptSecurity_ForeignNames(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	ctx := t.Context()
	v.claim("data", "")
	victim := &volumeSite{v.In(t)}
	victim.Shop = v.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: production-}}`).GetName()
	victim.claim("db", "")
	pv := victim.volume(victim.Shop, "db")
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	require.NoError(t, v.Client.Update(ctx, pv))
	source, class := "db", "chosen"
	taken := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Shop, Name: "db"},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &source},
			VolumeSnapshotClassName: &class}}
	require.NoError(t, v.Client.Create(ctx, taken))
	v.Eventually("the snapshot is ready", func(ctx context.Context) (bool, error) {
		err := v.Client.Get(ctx, client.ObjectKeyFromObject(taken), taken)
		return taken.Status != nil && taken.Status.ReadyToUse != nil && *taken.Status.ReadyToUse, err
	})
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: *taken.Status.BoundVolumeSnapshotContentName}}
	require.NoError(t, v.Client.Get(ctx, client.ObjectKeyFromObject(content), content))
	content.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
	require.NoError(t, v.Client.Update(ctx, content))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Shop, Name: "of-driver"}}
	require.NoError(t, v.Client.Create(ctx, secret))
	var other snapshotv1.VolumeSnapshotClass
	require.NoError(t, v.Client.Get(ctx, client.ObjectKey{Name: victim.class("other", nil)}, &other))
	other.Annotations = map[string]string{"csi.storage.k8s.io/snapshotter-list-secret-name": secret.Name,
		"csi.storage.k8s.io/snapshotter-list-secret-namespace": secret.Namespace}
	require.NoError(t, v.Client.Update(ctx, &other))

	v.begin("b", nil) // no server runs yet, so that the tenant knows the UID of the backup
	var b velerov1.Backup
	require.NoError(t, v.Client.Get(ctx, v.Key("b"), &b))
	labels := map[string]string{velerov1.BackupUIDLabel: string(b.UID)}
	missing := "missing"
	for name, spec := range map[string]snapshotv1.VolumeSnapshotSpec{
		"of-content": {Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &content.Name}},
		"of-class": {Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &missing},
			VolumeSnapshotClassName: &other.Name},
	} {
		vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: v.Shop, Name: name}, Spec: spec}
		if name == "of-content" {
			vs.Labels = labels
		}
		require.NoError(t, v.Client.Create(ctx, vs))
		if name == "of-content" {
			before := vs.DeepCopy()
			vs.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &content.Name}
			require.NoError(t, v.Client.Status().Patch(ctx, vs, client.MergeFrom(before)))
		}
	}
	v.grab(pv.Name)
	// What an archive could bring into a cluster before.
	handle := "of-production"
	single := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: victim.Shop, Labels: labels},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: csidriver.Name,
			DeletionPolicy:    snapshotv1.VolumeSnapshotContentRetain,
			Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle},
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: victim.Shop, Name: "later"}}}
	group := &groupsnapshotv1.VolumeGroupSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: victim.Shop, Labels: labels},
		Spec: groupsnapshotv1.VolumeGroupSnapshotContentSpec{Driver: csidriver.Name,
			DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
			Source: groupsnapshotv1.VolumeGroupSnapshotContentSource{GroupSnapshotHandles: &groupsnapshotv1.GroupSnapshotHandles{
				VolumeGroupSnapshotHandle: handle, VolumeSnapshotHandles: []string{handle}}},
			VolumeGroupSnapshotRef: corev1.ObjectReference{Namespace: victim.Shop, Name: "later"}}}
	for _, one := range []client.Object{single, group} {
		require.NoError(t, v.Client.Create(ctx, one))
		t.Cleanup(func() { _ = v.Client.Delete(context.Background(), one) })
	}

	v.Serve("--features", "EnableCSI")
	v.Available()
	v.AwaitEnd("b")
	stored := fmt.Sprint(v.Entries("b"))
	require.Contains(t, stored, "/data")
	for _, name := range []string{content.Name, pv.Name, secret.Name, other.Name, victim.Shop} {
		require.NotContains(t, stored, name)
	}
	v.restore("r", "b", v.Shop+"-2", nil)
	v.Must("backup", "delete", "b", "--confirm", "--wait")

	var now snapshotv1.VolumeSnapshotContent
	for _, one := range []*snapshotv1.VolumeSnapshotContent{content, single} {
		require.NoError(t, v.Client.Get(ctx, client.ObjectKeyFromObject(one), &now))
		require.Nil(t, now.DeletionTimestamp)
		require.Equal(t, one.Labels, now.Labels)
		require.Equal(t, snapshotv1.VolumeSnapshotContentRetain, now.Spec.DeletionPolicy)
	}
	require.NoError(t, v.Client.Get(ctx, client.ObjectKeyFromObject(group), group))
	require.Nil(t, group.DeletionTimestamp)
	require.Equal(t, snapshotv1.VolumeSnapshotContentRetain, group.Spec.DeletionPolicy)
	require.NoError(t, v.Client.Get(ctx, client.ObjectKeyFromObject(taken), taken))
	require.Nil(t, taken.DeletionTimestamp)
	require.Len(t, victim.taken(), 1)
	after := victim.volume(victim.Shop, "db")
	require.Equal(t, corev1.PersistentVolumeReclaimRetain, after.Spec.PersistentVolumeReclaimPolicy)
	require.Equal(t, pv.Labels, after.Labels)
}

// grab creates a claim in the shop that names a volume, and keeps it bound until the test ends: Kubernetes sees that the
// volume is bound to another claim, and says so in the status again and again.
func (v *volumeSite) grab(volume string) {
	v.T.Helper()
	claim := v.Put(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: grab, namespace: %s}, spec: {
		accessModes: [ReadWriteOnce], storageClassName: %s, volumeName: %s, resources: {requests: {storage: 1Gi}}}}`, v.Shop,
		csidriver.StorageClass, volume))
	ctx, stop := context.WithCancel(v.T.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			_ = v.Client.Status().Patch(ctx, claim.DeepCopy(), client.RawPatch("application/merge-patch+json",
				[]byte(`{"status":{"phase":"Bound"}}`)))
		}
	}()
	v.T.Cleanup(func() { stop(); <-ended })
}
