package nodeagent_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptSecurity_Tenants has loads of the volume of another namespace for the agent of an installation for one
// namespace: a New load, and loads that claim to be in progress. The agent reads nothing, neither with the rights of
// --rbac least nor with all rights.
func TestAcceptSecurity_Tenants(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]bool{"least privilege": true, "all rights": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 1)
			node := s.nodes[0]
			shop, victim := s.tenant("shop"), s.tenant("victim")
			cluster := s.plane.Get(t)
			out, err := exec.CommandContext(t.Context(), programs.Build(t, "server/cmd/cleat"), "install", "--kubeconfig",
				cluster.Kubeconfig, "--namespace", s.namespace,
				"--no-default-backup-location", "--no-secret", "--use-node-agent", "--rbac", "least", "--rbac-namespaces",
				shop.Namespace).CombinedOutput()
			require.NoError(t, err, string(out))
			var installed appsv1.DaemonSet
			require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "node-agent"},
				&installed))
			args := installed.Spec.Template.Spec.Containers[0].Args[2:]
			if least {
				kubeconfig := cluster.AccountKubeconfig(t, s.namespace, "node-agent")
				requireTenant(t, kubeconfig, shop.Namespace, victim.Namespace)
				args = append(args, "--kubeconfig", kubeconfig)
			}
			s.agents(args...)

			of := func(name string, pod *corev1.Pod, phase velerov1.LoadPhase) client.Object {
				load := s.backup(name, node)
				load.Spec.Pod = velerov1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
				load.Status.Phase = phase
				return load
			}
			into := s.restore("into-victim", node, "some")
			into.Spec.Pod = velerov1.ObjectReference{Kind: "Pod", Namespace: victim.Namespace, Name: victim.Name,
				UID: victim.UID}
			s.create(of("new", victim, ""), of("accepted", victim, velerov1.LoadPhaseAccepted),
				of("prepared", victim, velerov1.LoadPhasePrepared), into)
			for _, key := range []string{"PodVolumeBackup/new", "PodVolumeBackup/accepted", "PodVolumeBackup/prepared",
				"PodVolumeRestore/into-victim"} {
				found := s.awaitPhase(key, velerov1.LoadPhaseFailed)
				require.Contains(t, found.message, `its volume is in namespace "`+victim.Namespace+`"`, key)
			}
			s.create(of("own", shop, ""))
			s.awaitPhase("PodVolumeBackup/own", velerov1.LoadPhaseCompleted)
			var loads velerov1.PodVolumeBackupList
			require.NoError(t, s.client.List(t.Context(), &loads, client.InNamespace(s.namespace)))
			for _, load := range loads.Items {
				require.Equal(t, load.Name == "own", load.Status.SnapshotID != "", load.Name)
			}
		})
	}
}

// tenant runs a pod with volumes in a namespace of its own, on the first node.
func (s *site) tenant(name string) *corev1.Pod {
	s.t.Helper()
	in := *s
	in.namespace = name + "-" + s.namespace
	require.NoError(s.t, s.client.Create(s.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.namespace}}))
	return in.pod("app", s.nodes[0], nil)
}

// requireTenant checks that an account can read the pods and claims of one namespace, and none of another.
func requireTenant(t *testing.T, kubeconfig, own, other string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	require.NoError(t, c.List(t.Context(), new(corev1.PodList), client.InNamespace(own)))
	for what, err := range map[string]error{
		"pods of all": c.List(t.Context(), new(corev1.PodList)),
		"pods":        c.List(t.Context(), new(corev1.PodList), client.InNamespace(other)),
		"a pod":       c.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "app"}, new(corev1.Pod)),
		"a claim": c.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "claim"},
			new(corev1.PersistentVolumeClaim)),
		"all claims":   c.List(t.Context(), new(corev1.PersistentVolumeClaimList)),
		"secrets":      c.List(t.Context(), new(corev1.SecretList), client.InNamespace(other)),
		"a pod's name": c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "app"}, new(corev1.Pod)),
	} {
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
	}
}

// TestAcceptSecurity_NamesOfLoads has loads with invalid names. They fail at once, and do not block the only slot of
// the node.
func TestAcceptSecurity_NamesOfLoads(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	node := s.nodes[0]
	s.agents()
	location, namespace, repository, volume := s.backup("location", node), s.backup("namespace", node),
		s.restore("repository", node, "some"), s.backup("volume", node)
	location.Spec.BackupStorageLocation = "a/b"
	namespace.Spec.Pod.Namespace = ".."
	repository.Spec.SourceNamespace = "../../elsewhere"
	volume.Spec.Volume = "../data"
	upload, ahead := s.upload("snapshot"), s.backup("ahead", node)
	upload.Spec.CSISnapshot.VolumeSnapshot = "v/../w"
	ahead.Spec.Node, ahead.Status.Phase = "a/b", velerov1.LoadPhasePrepared // its node is looked up
	s.create(ahead, location, namespace, repository, volume, upload)
	for key, field := range map[string]string{
		"PodVolumeBackup/location": "spec.backupStorageLocation", "PodVolumeBackup/namespace": "the namespace of the volume",
		"PodVolumeRestore/repository": "the namespace of the repository", "PodVolumeBackup/volume": "spec.volume",
		"DataUpload/snapshot": "spec.csiSnapshot.volumeSnapshot",
	} {
		found := s.awaitPhase(key, velerov1.LoadPhaseFailed)
		require.True(t, strings.HasPrefix(found.message, field+` "`), found.message)
	}
	s.create(s.backup("good", node))
	s.awaitPhase("PodVolumeBackup/good", velerov1.LoadPhaseCompleted)
}
