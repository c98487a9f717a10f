package main_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// object decodes an object from YAML.
func (s *site) object(text string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal([]byte(text), &o.Object), text)
	return o
}

// put creates an object from YAML.
func (s *site) put(text string) *unstructured.Unstructured {
	s.t.Helper()
	o := s.object(text)
	require.NoError(s.t, s.client.Create(s.t.Context(), o))
	return o
}

// get reads an object anew.
func (s *site) get(o *unstructured.Unstructured) *unstructured.Unstructured {
	s.t.Helper()
	now := o.DeepCopy()
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(o), now))
	return now
}

// change applies a merge patch in JSON, to the status subresource if it is of the status.
func (s *site) change(o *unstructured.Unstructured, patch string) {
	s.t.Helper()
	p := client.RawPatch(types.MergePatchType, []byte(patch))
	if strings.HasPrefix(patch, `{"status"`) {
		require.NoError(s.t, s.client.Status().Patch(s.t.Context(), o.DeepCopy(), p))
		return
	}
	require.NoError(s.t, s.client.Patch(s.t.Context(), o.DeepCopy(), p))
}

// boundClaim creates a volume and a claim, and returns the volume when both are bound.
func (s *site) boundClaim(volume, namespace, claim, policy string) *unstructured.Unstructured {
	s.t.Helper()
	pv := s.put(fmt.Sprintf(
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
		persistentVolumeReclaimPolicy: %s, storageClassName: "", claimRef: {namespace: %s, name: %s}, csi: {driver: x.example.com, volumeHandle: %s}}}`, volume, policy, namespace, claim, volume))
	s.t.Cleanup(func() { s.dropVolume(volume) })
	c := s.put(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, namespace: %s}, spec: {accessModes: [ReadWriteOnce],
		storageClassName: "", volumeName: %s, resources: {requests: {storage: 1Gi}}}}`, claim, namespace, volume))
	s.eventually("the claim is bound", func(context.Context) (bool, error) {
		phase, _, err := unstructured.NestedString(s.get(c).Object, "status", "phase")
		return phase == "Bound", err
	})
	return s.get(pv)
}

// in returns the site for a subtest.
func (s *site) in(t *testing.T) *site {
	sub := *s
	sub.t = t
	return &sub
}

// dropVolume deletes a persistent volume, which backups of other tests would contain.
func (s *site) dropVolume(name string) {
	_ = s.client.Delete(context.Background(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
