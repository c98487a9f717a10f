package main_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAcceptRestore_ExistingOfOthers updates objects that hold something else than in the backup, or are held by
// another. Each keeps what it has, and a warning says why.
func TestAcceptRestore_ExistingOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.serve()
	s.available()
	ns := s.put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
	other := s.put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: other-}}`).GetName()
	in := func(text string, args ...any) *unstructured.Unstructured { return s.object(fmt.Sprintf(text, args...)) }
	volume := s.boundClaim(ns+"-volume", ns, "first", "Retain")
	released := s.boundClaim(ns+"-released", ns, "again", "Retain")
	service := s.put(fmt.Sprintf(
		`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: %s}, spec: {type: NodePort, externalIPs: [192.0.2.7],
		selector: {a: "1"}, ports: [{name: web, port: 80, nodePort: 31911}]}}`, ns))
	subject := `{kind: ServiceAccount, name: %s, namespace: %s}`
	rights := `{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: %s, namespace: "%s"}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [%s]}`
	alike := s.put(fmt.Sprintf(rights, "ClusterRoleBinding", ns, "", fmt.Sprintf(subject, "app", ns)))
	s.change(alike, fmt.Sprintf(`{"metadata":{"labels":{"of":%q}}}`, ns))
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), alike) })
	more := s.put(fmt.Sprintf(rights, "RoleBinding", "more", ns, fmt.Sprintf(subject, "one", ns)+","+
		fmt.Sprintf(subject, "two", ns)))
	role := s.put(fmt.Sprintf(rights, "RoleBinding", "role", ns, fmt.Sprintf(subject, "one", ns)))
	owned := s.put(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: %s}, data: {a: "1"}}`,
		ns))
	s.must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	s.must("backup", "create", "rights", "--include-cluster-scoped-resources", "clusterrolebindings", "--selector",
		"of="+ns, "--wait")

	gone := func(o *unstructured.Unstructured) {
		require.NoError(t, s.client.Delete(t.Context(), o))
		s.eventually("it is gone", func(ctx context.Context) (bool, error) {
			err := s.client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
			return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
		})
	}
	phase := func(o *unstructured.Unstructured, is string) {
		s.eventually(o.GetName()+" is "+is,
			func(context.Context) (bool, error) { return dug(s.get(o), "status", "phase") == `"`+is+`"`, nil })
	}
	// Another claim is bound to the volume now, and its administrator keeps it.
	gone(in(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: first, namespace: %s}}`, ns))
	phase(volume, "Released")
	s.change(volume, fmt.Sprintf(
		`{"metadata":{"labels":{"of":"other"}},"spec":{"claimRef":{"namespace":%q,"name":"second","uid":null,"resourceVersion":null}}}`, other,
	))
	second := s.put(fmt.Sprintf(
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: second, namespace: %s}, spec: {accessModes: [ReadWriteOnce],
		storageClassName: "", volumeName: %s, resources: {requests: {storage: 1Gi}}}}`, other, volume.GetName()))
	phase(second, "Bound")
	again := in(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: again, namespace: %s}}`, ns)
	gone(again)
	phase(released, "Released")
	s.change(service, `{"spec":{"externalIPs":["192.0.2.8"],"selector":{"a":"2"},"ports":[{"name":"web","port":80,"nodePort":31912}]}}`)
	s.change(alike, fmt.Sprintf(`{"subjects":[{"kind":"ServiceAccount","name":"app","namespace":%q}]}`, other))
	s.change(more, fmt.Sprintf(`{"subjects":[{"kind":"ServiceAccount","name":"one","namespace":%q}]}`, ns))
	gone(role)
	s.put(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: role, namespace: %s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: []}`, ns))
	s.change(owned, fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"s","uid":%q}]},"data":{"a":"2"}}`,
		service.GetUID(),
	))

	out := s.must("restore", "create", "dry", "--from-backup", "b", "--existing-resource-policy", "update", "--dry-run")
	require.Contains(t, out, "persistentvolumes "+volume.GetName()+": conflict: ")
	warnings := s.over("r", "b", "--existing-resource-policy", "update")
	warnings += s.over("rights", "rights", "--existing-resource-policy", "update")

	now := s.get(volume)
	require.Equal(t, `"second"`, dug(now, "spec", "claimRef", "name"))
	require.Equal(t, `"other"`, dug(now, "metadata", "labels", "of"), "nothing of a volume of somebody else is changed")
	require.Contains(t, warnings, "spec.claimRef: the volume belongs to the claim that it is bound to, now "+other+
		"/second")
	phase(second, "Bound")
	phase(released, "Bound") // to the claim of the same name
	phase(again, "Bound")

	now = s.get(service)
	require.Equal(t, `["192.0.2.8"]`, dug(now, "spec", "externalIPs"))
	require.Contains(t, dug(now, "spec", "ports"), "31912")
	require.Equal(t, `"1"`, dug(now, "spec", "selector", "a"))
	require.Contains(t, warnings, "spec.externalIPs: addresses are not taken from one service for another, now 192.0.2.8")
	require.Contains(t, warnings, "spec.ports[web].nodePort: the service keeps its node port, now 31912")

	require.Contains(t, dug(s.get(alike), "subjects"), other)
	require.Contains(t, warnings, "subjects: subjects do not lose their rights, now "+other+"/app")
	require.Contains(t, dug(s.get(more), "subjects"), `"two"`, "an update adds subjects")
	require.Equal(t, `"edit"`, dug(s.get(role), "roleRef", "name"))
	require.Equal(t, "null", dug(s.get(role), "subjects"))
	require.Contains(t, warnings, "roleRef: the binding grants another role, now ClusterRole edit")

	now = s.get(owned)
	require.Equal(t, `{"a":"1"}`, dug(now, "data"))
	require.Len(t, now.GetOwnerReferences(), 1)
}
