package backups_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptBackup_RelatedItemsHaveNoHooks backs up pods by their labels. Both pods have hooks, and mount the same
// claim.
func TestAcceptBackup_RelatedItemsHaveNoHooks(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.sharedClaim("data")
	for _, name := range []string{"web", "cron"} {
		s.podWithClaim(name, "data")
	}
	s.Serve()
	s.Available()
	listed := func(backup string) map[string][]string {
		return site.Gzipped[map[string][]string](s.Site, "backups/"+backup+"/"+backup+"-resource-list.json.gz")
	}

	s.Must("backup", "create", "one", "--include-namespaces", s.Shop, "--selector", "app=web", "--snapshot-volumes=false",
		"--wait")
	s.AwaitBackup("one", velerov1.BackupPhaseCompleted)
	one := listed("one")
	require.Equal(t, []string{s.Shop + "/web"}, one["v1/Pod"], "the other pod only shares the claim")
	require.Equal(t, []string{s.Shop + "/data"}, one["v1/PersistentVolumeClaim"], "a pod needs its claim")
	require.Equal(t, []string{s.Shop}, one["v1/PersistentVolume"], "a claim needs its volume")
	require.Equal(t, []string{"web"}, s.did(s.Shop, "web"))
	require.Empty(t, s.did(s.Shop, "cron"), "hooks of a pod that is not in the backup do not run")

	s.Must("backup", "create", "either", "--include-namespaces", s.Shop, "--or-selector", "app=web or app=cron",
		"--snapshot-volumes=false", "--wait")
	require.ElementsMatch(t, []string{s.Shop + "/web", s.Shop + "/cron"}, listed("either")["v1/Pod"])
	require.Equal(t, []string{"cron"}, s.did(s.Shop, "cron"))
}

// sharedClaim creates a claim in the shop that is bound to a volume with the name of the shop.
func (s *hookSite) sharedClaim(name string) {
	s.T.Helper()
	size, none := corev1.ResourceList{"storage": resource.MustParse("1Gi")}, ""
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &none, VolumeName: s.Shop, Resources: corev1.VolumeResourceRequirements{
				Requests: size,
			},
		},
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), claim))
	require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.Shop},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/none"},
			},
			ClaimRef: &corev1.ObjectReference{Namespace: s.Shop, Name: name, UID: claim.UID},
		},
	}))
	s.Eventually("the claim is bound", func(ctx context.Context) (bool, error) { // with or without a controller that binds
		before := claim.DeepCopy()
		claim.Status.Phase = corev1.ClaimBound
		return true, s.Client.Status().Patch(ctx, claim, client.MergeFrom(before))
	})
}

// podWithClaim creates a running pod of the shop that mounts a claim. Its hook appends its name.
func (s *hookSite) podWithClaim(name, claim string) {
	s.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: name, Labels: map[string]string{"app": name},
			Annotations: map[string]string{
				"pre.hook.backup.velero.io/command": shell("echo " + name + " >> did"),
			}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "app",
				VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
	s.Eventually("pod "+name+" is created", func(ctx context.Context) (bool, error) {
		// its service account may not exist yet
		err := s.Client.Create(ctx, pod)
		return err == nil || apierrors.IsAlreadyExists(err), nil
	})
	require.NoError(s.T, s.kubelet.Run(s.T.Context(), s.Shop, name, true))
}
