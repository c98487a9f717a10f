package restores_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptRestore_ExistingOfOthers updates objects that hold something other than in the backup, or are held by
// another object. Each keeps its field, and a warning has the reason.
func TestAcceptRestore_ExistingOfOthers(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
	other := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: other-}}`).GetName()
	in := func(text string, args ...any) *unstructured.Unstructured { return s.Object(fmt.Sprintf(text, args...)) }
	volume := s.BoundClaim(ns+"-volume", ns, "first", "Retain")
	released := s.BoundClaim(ns+"-released", ns, "again", "Retain")
	service := s.Put(fmt.Sprintf(
		`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: %s}, spec: {type: NodePort, externalIPs: [192.0.2.7],
		selector: {a: "1"}, ports: [{name: web, port: 80, nodePort: 31911}]}}`, ns))
	subject := `{kind: ServiceAccount, name: %s, namespace: %s}`
	rights := `{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: %s, namespace: "%s"}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [%s]}`
	alike := s.Put(fmt.Sprintf(rights, "ClusterRoleBinding", ns, "", fmt.Sprintf(subject, "app", ns)))
	s.Change(alike, fmt.Sprintf(`{"metadata":{"labels":{"of":%q}}}`, ns))
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), alike) })
	more := s.Put(fmt.Sprintf(rights, "RoleBinding", "more", ns, fmt.Sprintf(subject, "one", ns)+","+
		fmt.Sprintf(subject, "two", ns)))
	role := s.Put(fmt.Sprintf(rights, "RoleBinding", "role", ns, fmt.Sprintf(subject, "one", ns)))
	owned := s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: %s}, data: {a: "1"}}`,
		ns))
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	s.Must("backup", "create", "rights", "--include-cluster-scoped-resources", "clusterrolebindings", "--selector",
		"of="+ns, "--wait")

	gone := func(o *unstructured.Unstructured) {
		require.NoError(t, s.Client.Delete(t.Context(), o))
		s.Eventually("it is gone", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
			return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
		})
	}
	phase := func(o *unstructured.Unstructured, is string) {
		s.Eventually(o.GetName()+" is "+is,
			func(context.Context) (bool, error) { return dug(s.Get(o), "status", "phase") == `"`+is+`"`, nil })
	}
	// The volume is bound to another claim now, which stays so.
	gone(in(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: first, namespace: %s}}`, ns))
	phase(volume, "Released")
	s.Change(volume, fmt.Sprintf(
		`{"metadata":{"labels":{"of":"other"}},"spec":{"claimRef":{"namespace":%q,"name":"second","uid":null,"resourceVersion":null}}}`, other,
	))
	second := s.Put(fmt.Sprintf(
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: second, namespace: %s}, spec: {accessModes: [ReadWriteOnce],
		storageClassName: "", volumeName: %s, resources: {requests: {storage: 1Gi}}}}`, other, volume.GetName()))
	phase(second, "Bound")
	again := in(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: again, namespace: %s}}`, ns)
	gone(again)
	phase(released, "Released")
	s.Change(service, `{"spec":{"externalIPs":["192.0.2.8"],"selector":{"a":"2"},"ports":[{"name":"web","port":80,"nodePort":31912}]}}`)
	s.Change(alike, fmt.Sprintf(`{"subjects":[{"kind":"ServiceAccount","name":"app","namespace":%q}]}`, other))
	s.Change(more, fmt.Sprintf(`{"subjects":[{"kind":"ServiceAccount","name":"one","namespace":%q}]}`, ns))
	gone(role)
	s.Put(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: role, namespace: %s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: []}`, ns))
	s.Change(owned, fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"s","uid":%q}]},"data":{"a":"2"}}`,
		service.GetUID(),
	))

	out := s.Must("restore", "create", "dry", "--from-backup", "b", "--existing-resource-policy", "update", "--dry-run")
	require.Contains(t, out, "persistentvolumes "+volume.GetName()+": conflict: ")
	warnings := over(s, "r", "b", "--existing-resource-policy", "update")
	warnings += over(s, "rights", "rights", "--existing-resource-policy", "update")

	now := s.Get(volume)
	require.Equal(t, `"second"`, dug(now, "spec", "claimRef", "name"))
	require.Equal(t, `"other"`, dug(now, "metadata", "labels", "of"), "nothing of a volume of somebody else is changed")
	require.Contains(t, warnings, "spec.claimRef: the volume belongs to the claim that it is bound to, now "+other+
		"/second")
	phase(second, "Bound")
	phase(released, "Bound") // to the claim of the same name
	phase(again, "Bound")

	now = s.Get(service)
	require.Equal(t, `["192.0.2.8"]`, dug(now, "spec", "externalIPs"))
	require.Contains(t, dug(now, "spec", "ports"), "31912")
	require.Equal(t, `"1"`, dug(now, "spec", "selector", "a"))
	require.Contains(t, warnings, "spec.externalIPs: addresses are not taken from one service for another, now 192.0.2.8")
	require.Contains(t, warnings, "spec.ports[web].nodePort: the service keeps its node port, now 31912")

	require.Contains(t, dug(s.Get(alike), "subjects"), other)
	require.Contains(t, warnings, "subjects: subjects do not lose their rights, now "+other+"/app")
	require.Contains(t, dug(s.Get(more), "subjects"), `"two"`, "an update adds subjects")
	require.Equal(t, `"edit"`, dug(s.Get(role), "roleRef", "name"))
	require.Equal(t, "null", dug(s.Get(role), "subjects"))
	require.Contains(t, warnings, "roleRef: the binding grants another role, now ClusterRole edit")

	now = s.Get(owned)
	require.Equal(t, `{"a":"1"}`, dug(now, "data"))
	require.Len(t, now.GetOwnerReferences(), 1)
}
