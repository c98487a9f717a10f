package nodeagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// exposing returns the claim and the pod that expose the volume of a load, when the load has a phase.
func (v *volumeSite) exposing(
	kind, name string, phase velerov1.LoadPhase,
) (*corev1.PersistentVolumeClaim, *corev1.Pod) {
	v.t.Helper()
	v.awaitPhase(kind+"/"+name, phase)
	claim, pod := new(corev1.PersistentVolumeClaim), new(corev1.Pod)
	for _, object := range []client.Object{claim, pod} {
		require.NoError(v.t, v.client.Get(v.t.Context(), client.ObjectKey{Namespace: v.namespace, Name: name}, object))
	}
	return claim, pod
}

// releaseHeld lets the restores of the snapshot end.
func (v *volumeSite) releaseHeld() {
	v.t.Helper()
	require.NoError(v.t, os.Remove(filepath.Join(v.store, "restic", v.namespace, held, "hold")))
}

// csiDelayedBinding restores volumes of a class that makes them for pods: on the node that a scheduler has chosen for
// the restored pod, or on any node if the agents are configured for that.
func csiDelayedBinding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config string
		chosen bool // the restored pod has a node
	}{
		"on the node of the pod": {`{}`, true},
		"ignoreDelayBinding":     {`{"restorePVC": {"ignoreDelayBinding": true}, "loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "ssd"}}}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _ := newHeld(t, 2, test.config)
			late := v.class("late", func(c *storagev1.StorageClass) {
				c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
			})
			require.Equal(t, v.late(), late)
			target := v.target("wanted", late)
			v.agents()
			v.create(v.downloadOf("wanted", held))
			node := ""
			if test.chosen {
				v.await("it says what it waits for", func(last map[string]state) bool {
					o := last["DataDownload/wanted"]
					return o.phase == velerov1.LoadPhaseAccepted && strings.HasPrefix(o.message, "volume claim "+v.shop+
						"/wanted waits for a pod that uses it")
				})
				node = v.nodes[len("wanted+")%2] // different from the usual node of the pods
				v.change(target, func() { metav1.SetMetaDataAnnotation(&target.ObjectMeta, selectedNode, node) })
			}
			claim, pod := v.exposing("DataDownload", "wanted", velerov1.LoadPhaseInProgress)
			require.Equal(t, late, *claim.Spec.StorageClassName)
			require.NotEmpty(t, claim.Annotations[selectedNode], "a scheduler sets it")
			if test.chosen {
				require.Equal(t, node, claim.Annotations[selectedNode])
				require.Equal(t, map[string]string{corev1.LabelHostname: node}, pod.Spec.NodeSelector)
				require.Equal(t, node, pod.Spec.NodeName)
				require.Nil(t, pod.Spec.Affinity)
			} else {
				require.Empty(t, pod.Spec.NodeSelector)
				terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
				require.Contains(t, terms[0].MatchExpressions,
					corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}})
			}
			v.releaseHeld()
			done := v.awaitPhase("DataDownload/wanted", velerov1.LoadPhaseCompleted)
			require.Equal(t, [2]string{pod.Spec.NodeName, ""}, [2]string{done.node, done.message})
			pv := v.volume(v.shop, "wanted")
			require.Equal(t, claim.Spec.VolumeName, pv.Name)
			data, err := os.ReadFile(filepath.Join(v.plane.disks.Volume(pv.Spec.CSI.VolumeHandle), "data"))
			require.NoError(t, err)
			require.Equal(t, "of the user", string(data))
			v.leavesNothing(v.shop, "data")
		})
	}
}

// csiConfiguredClaims exposes snapshots as configured in the ConfigMap of the agents for the storage class of their
// source.
func csiConfiguredClaims(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 1)
	v.claim("data", corev1.PersistentVolumeFilesystem)
	for _, file := range []string{"hold", "data"} {
		require.NoError(t, os.WriteFile(filepath.Join(v.dir(v.shop, "data"), file), []byte("of the user"), 0o600))
	}
	shallow := v.class("shallow",
		func(c *storagev1.StorageClass) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain) })
	v.configure(`{"loadConcurrency": {"globalConfig": 2}, "backupPVC": {
		"` + csidriver.StorageClass + `": {"storageClass": "` + shallow + `", "readOnly": true, "spcNoRelabeling": true, "annotations": {"example.io/shallow": "yes"},
			"secretNames": ["token"], "configMapNames": ["vault"]},
		"` + shallow + `": {"spcNoRelabeling": true}}}`)
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	token := &corev1.Secret{ObjectMeta: in(v.shop, "token"), Data: map[string][]byte{"key": []byte("of the tenant")}}
	vault := &corev1.ConfigMap{ObjectMeta: in(v.shop, "vault"), Data: map[string]string{"url": "of the tenant"}}
	require.NoError(t, v.client.Create(t.Context(), token))
	require.NoError(t, v.client.Create(t.Context(), vault))
	agents := v.agents()
	v.taken("configured", "data")
	v.take("other", "data", "chosen")
	other := v.uploadOf("other", "data")
	other.Spec.CSISnapshot.StorageClass = shallow // as if the source were of it
	v.create(other)

	claim, pod := v.exposing("DataUpload", "configured", velerov1.LoadPhaseInProgress)
	copied, configured := new(corev1.Secret), new(corev1.ConfigMap)
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.namespace, Name: "token"}, copied))
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.namespace, Name: "vault"}, configured))
	require.Equal(t, token.Data, copied.Data)
	require.Equal(t, vault.Data, configured.Data)
	require.Equal(t, "configured", copied.OwnerReferences[0].Name)
	require.Equal(t, shallow, *claim.Spec.StorageClassName)
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}, claim.Spec.AccessModes)
	require.Equal(t, "yes", claim.Annotations["example.io/shallow"])
	require.True(t, pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly)
	require.True(t, pod.Spec.Containers[0].VolumeMounts[0].ReadOnly)
	require.Equal(t, &corev1.SELinuxOptions{Type: "spc_t"}, pod.Spec.SecurityContext.SELinuxOptions)

	claim, pod = v.exposing("DataUpload", "other", velerov1.LoadPhaseInProgress)
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, claim.Spec.AccessModes)
	require.False(t, pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly)
	require.False(t, pod.Spec.Containers[0].VolumeMounts[0].ReadOnly)
	require.Nil(t, pod.Spec.SecurityContext.SELinuxOptions)
	require.Contains(t, agents[0].log.String(), "backupPVC."+shallow+
		".spcNoRelabeling is ignored, because it needs readOnly: true")

	for _, name := range []string{"configured", "other"} {
		require.NoError(t, os.Remove(filepath.Join(v.dir(v.namespace, name), "hold")))
	}
	for _, name := range []string{"configured", "other"} {
		v.awaitPhase("DataUpload/"+name, velerov1.LoadPhaseCompleted)
	}
	for _, object := range []client.Object{copied, configured} {
		require.True(t, apierrors.IsNotFound(v.client.Get(t.Context(), client.ObjectKeyFromObject(object), object)))
	}
	v.leavesNothing(v.shop, "data")
}
