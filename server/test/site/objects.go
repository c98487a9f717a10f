package site

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

// Object decodes an object from YAML.
func (s *Site) Object(text string) *unstructured.Unstructured {
	s.T.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(s.T, yaml.Unmarshal([]byte(text), &o.Object), text)
	return o
}

// Put creates an object from YAML.
func (s *Site) Put(text string) *unstructured.Unstructured {
	s.T.Helper()
	o := s.Object(text)
	require.NoError(s.T, s.Client.Create(s.T.Context(), o))
	return o
}

// Get reads the current state of an object.
func (s *Site) Get(o *unstructured.Unstructured) *unstructured.Unstructured {
	s.T.Helper()
	now := o.DeepCopy()
	require.NoError(s.T, s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(o), now))
	return now
}

// Change applies a merge patch in JSON, to the status subresource if it is of the status.
func (s *Site) Change(o *unstructured.Unstructured, patch string) {
	s.T.Helper()
	p := client.RawPatch(types.MergePatchType, []byte(patch))
	if strings.HasPrefix(patch, `{"status"`) {
		require.NoError(s.T, s.Client.Status().Patch(s.T.Context(), o.DeepCopy(), p))
		return
	}
	require.NoError(s.T, s.Client.Patch(s.T.Context(), o.DeepCopy(), p))
}

// BoundClaim creates a volume and a claim, and returns the volume when both are bound.
func (s *Site) BoundClaim(volume, namespace, claim, policy string) *unstructured.Unstructured {
	s.T.Helper()
	pv := s.Put(fmt.Sprintf(
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
		persistentVolumeReclaimPolicy: %s, storageClassName: "", claimRef: {namespace: %s, name: %s}, csi: {driver: x.example.com, volumeHandle: %s}}}`, volume, policy, namespace, claim, volume))
	s.T.Cleanup(func() { s.DropVolume(volume) })
	c := s.Put(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, namespace: %s}, spec: {accessModes: [ReadWriteOnce],
		storageClassName: "", volumeName: %s, resources: {requests: {storage: 1Gi}}}}`, claim, namespace, volume))
	s.Eventually("the claim is bound", func(context.Context) (bool, error) {
		phase, _, err := unstructured.NestedString(s.Get(c).Object, "status", "phase")
		return phase == "Bound", err
	})
	return s.Get(pv)
}

// In returns the site for a subtest.
func (s *Site) In(t *testing.T) *Site {
	sub := *s
	sub.T = t
	return &sub
}

// DropVolume deletes a persistent volume, which backups of other tests would contain.
func (s *Site) DropVolume(name string) {
	_ = s.Client.Delete(context.Background(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Define installs the definition of a namespaced custom resource, of which version v1 has a schema and no subresource,
// and waits until it is served.
func (s *Site) Define(group, plural, kind, schema string) *unstructured.Unstructured {
	s.T.Helper()
	definition := s.Put(fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: %s.%s}, spec: {group: %s, scope: Namespaced, names: {plural: %s, kind: %s, singular: %s},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: %s}}]}}`, plural, group, group, plural, kind,
		strings.ToLower(kind), schema))
	s.T.Cleanup(func() { _ = s.Client.Delete(context.Background(), definition) })
	s.Eventually("the definition is served", func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": group + "/v1", "kind": kind}}
		err := s.Client.List(ctx, list)
		return err == nil, nil
	})
	return definition
}
