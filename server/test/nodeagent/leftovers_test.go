package nodeagent_test

import (
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// volume returns the volume of a claim, once it is bound.
func (s *site) volume(namespace, name string) *corev1.PersistentVolume {
	s.t.Helper()
	var claim corev1.PersistentVolumeClaim
	var pv corev1.PersistentVolume
	s.eventually("claim "+namespace+"/"+name+" is bound", func() (bool, error) {
		err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &pv))
	return &pv
}

// leavesNothing waits until there are no objects of snapshots and exposed volumes any more, and the storage system has
// no snapshots of the volume of a claim.
func (s *site) leavesNothing(namespace, claim string) {
	s.t.Helper()
	handle := s.volume(namespace, claim).Spec.CSI.VolumeHandle
	var left []string
	defer func() {
		if s.t.Failed() {
			s.t.Log("left:", left)
		}
	}()
	s.eventually("nothing is left", func() (bool, error) {
		left = s.left()
		taken, err := s.plane.disks.SnapshotsOf(func(volume string) bool { return volume == handle })
		for _, id := range taken {
			left = append(left, "snapshot "+id+" of the storage system")
		}
		return len(left) == 0, err
	})
}

// left returns the remaining objects of snapshots and exposed volumes in the cluster, of the site and its shops.
func (s *site) left() (found []string) {
	s.t.Helper()
	ctx := s.t.Context()
	var contents snapshotv1.VolumeSnapshotContentList
	var volumes corev1.PersistentVolumeList
	require.NoError(s.t, s.client.List(ctx, &contents))
	require.NoError(s.t, s.client.List(ctx, &volumes))
	of := func(namespace string) bool { return strings.Contains(namespace, s.namespace) }
	for i := range contents.Items {
		if c := &contents.Items[i]; of(c.Spec.VolumeSnapshotRef.Namespace) {
			found = append(found, "content "+c.Name)
		}
	}
	for i := range volumes.Items {
		if pv := &volumes.Items[i]; pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == s.namespace {
			found = append(found, "volume "+pv.Name+" "+string(pv.Status.Phase))
		}
	}
	var snapshots snapshotv1.VolumeSnapshotList
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	var maps corev1.ConfigMapList
	require.NoError(s.t, s.client.List(ctx, &snapshots))
	require.NoError(s.t, s.client.List(ctx, &claims, client.InNamespace(s.namespace)))
	require.NoError(s.t, s.client.List(ctx, &pods, client.InNamespace(s.namespace),
		client.HasLabels{velerov1.ExposerPodGroupLabel}))
	require.NoError(s.t, s.client.List(ctx, &maps, client.InNamespace(s.namespace),
		client.HasLabels{velerov1.ResourceUsageLabel}))
	for i := range snapshots.Items {
		if of(snapshots.Items[i].Namespace) && !releasedSoon(&snapshots.Items[i]) {
			found = append(found, "snapshot "+snapshots.Items[i].Name)
		}
	}
	for i := range claims.Items {
		if claims.Items[i].Name != "claim" { // of the site
			found = append(found, "claim "+claims.Items[i].Name)
		}
	}
	for i := range pods.Items {
		found = append(found, "pod "+pods.Items[i].Name)
	}
	for i := range maps.Items {
		found = append(found, "ConfigMap "+maps.Items[i].Name)
	}
	return found
}

// releasedSoon reports whether a deleted snapshot waits for the external-provisioner only. The provisioner keeps a
// snapshot while a volume is created from it. If its final update conflicts with another one, it tries again five
// minutes later.
func releasedSoon(snapshot *snapshotv1.VolumeSnapshot) bool {
	const provisioner = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
	return snapshot.DeletionTimestamp != nil && slices.Equal(snapshot.Finalizers, []string{provisioner})
}
