package restores_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// referring has objects that refer to namespaces NS and GATE. Those of namespace ELSE are in one that is not mapped.
const referring = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: group, namespace: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:NS"}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: user, namespace: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccount:NS:bot"}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: all, namespace: ELSE}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: bot, namespace: NS}, {kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:NS"}, {kind: User, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccount:GATE:bot"}]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: bot, namespace: NS}}
---
{apiVersion: v1, kind: Service, metadata: {name: ext, namespace: NS}, spec: {type: ExternalName, externalName: db.GATE.svc.cluster.local}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: policy, namespace: ELSE}, spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}}]}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: hosts, namespace: NS}, data: {url: "http://db.GATE.svc:80", other: "http://db.ELSE.svc"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: spaces, namespace: ELSE}, data: {watch-namespace: NS}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:NS"}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NS, labels: {of: NS}}, webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Ignore, rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [none]}], clientConfig: {service: {namespace: GATE, name: hook}}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [NS, ELSE]}]}}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: NS, labels: {of: NS}}, spec: {policyName: none.example.com, validationActions: [Audit], paramRef: {name: p, namespace: GATE, parameterNotFoundAction: Allow}}}
`

// TestAcceptRestore_MappedReferences restores into other namespaces what refers to those of the backup. What can be
// mapped is, also in namespaces that are not mapped, and a warning names the rest. One of the two namespaces is mapped
// to the other one's name, so that a reference that was mapped twice, or not at all, would be wrong.
func TestAcceptRestore_MappedReferences(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	space := func() string {
		return s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
	}
	ns, gate, elsewhere := space(), space(), space()
	names := strings.NewReplacer("NS", ns, "GATE", gate, "ELSE", elsewhere)
	text := names.Replace(referring)
	var objects []*unstructured.Unstructured
	for _, one := range strings.Split(text, "---") {
		o := s.Put(one)
		objects = append(objects, o)
		if o.GetNamespace() == "" {
			t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
		}
	}
	s.Must("backup", "create", "binding", "--include-namespaces", ns, "--wait")
	s.Must("backup", "create", "b", "--include-namespaces", strings.Join([]string{ns, gate, elsewhere}, ","),
		"--include-cluster-scoped-resources",
		"validatingwebhookconfigurations,validatingadmissionpolicybindings,clusterrolebindings", "--wait")
	require.True(t, slices.ContainsFunc(s.Entries("binding"), func(path string) bool {
		return strings.HasSuffix(path, "clusterrolebindings.rbac.authorization.k8s.io/cluster/"+ns+".json")
	}), "a backup of a namespace has what binds its group: %v", s.Entries("binding"))

	for _, o := range objects {
		if o.GetNamespace() != ns {
			require.NoError(t, s.Client.Delete(t.Context(), o))
		}
	}
	into := ns + "-2"
	s.Must("restore", "create", "r", "--from-backup", "b", "--namespace-mappings", ns+":"+into+","+gate+":"+ns, "--wait")
	const still = " still refers to namespaces that namespaceMapping maps, in "
	found := site.ReadJSON[results.Results](t, s, "restores", "r", "restore-r-results.gz")
	require.Zero(t, found.Errors.Count(), "%+v", found.Errors)
	for namespace, want := range map[string]string{
		into:      "configmaps/" + into + "/hosts" + still + "data.url (" + gate + ", now " + ns + ")",
		elsewhere: "configmaps/" + elsewhere + "/spaces" + still + "data.watch-namespace (" + ns + ", now " + into + ")",
	} {
		require.Len(t, found.Warnings.Namespaces[namespace], 1, "%+v", found.Warnings)
		require.Contains(t, found.Warnings.Namespaces[namespace][0], want)
	}
	mapped := strings.NewReplacer("NS", into, "GATE", ns, "ELSE", elsewhere).Replace(referring)
	for _, one := range strings.Split(mapped, "---") {
		want := s.Object(one)
		if want.GetNamespace() == "" {
			want.SetName(ns) // the names of cluster-scoped objects are not mapped
		}
		if want.GetKind() == "ConfigMap" {
			continue
		}
		got := s.Get(want)
		for _, field := range []string{"subjects", "spec", "webhooks"} {
			if want.Object[field] != nil {
				requireWithin(t, want.Object[field], got.Object[field], want.GetKind()+" "+want.GetName())
			}
		}
	}
}

// requireWithin requires that a value has what is wanted. It may have more, such as defaults.
func requireWithin(t *testing.T, want, got any, where string) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for key, value := range want {
			requireWithin(t, value, object[key], where+"."+key)
		}
	case []any:
		list, _ := got.([]any)
		require.Len(t, list, len(want), where)
		for i, value := range want {
			requireWithin(t, value, list[i], where)
		}
	default:
		require.Equal(t, want, got, where)
	}
}

// TestAcceptRestore_RequiredStatus restores objects of a definition without the status subresource whose schema requires
// a status.
func TestAcceptRestore_RequiredStatus(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	group := strings.ReplaceAll(s.Namespace, "-", "") + ".example.com"
	s.Define(group, "crates", "Crate", "{type: object, required: [status], x-kubernetes-preserve-unknown-fields: true}")
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
	crate := s.Put(`{apiVersion: ` + group + `/v1, kind: Crate, metadata: {name: one, namespace: ` + ns +
		`}, spec: {a: 1}, status: {phase: Full}}`)
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")

	plain := []string{"restore", "create", "plain", "--from-backup", "b", "--namespace-mappings", ns + ":" + ns + "-plain",
		"--wait"}
	_, _, err := s.Run(plain...)
	require.Error(t, err)
	require.Contains(t, s.Must("restore", "describe", "plain"),
		"its definition requires a status, which is restored only "+
			"on request: add crates."+group+" to spec.restoreStatus.includedResources (--status-include-resources)")
	s.Must("restore", "create", "with", "--from-backup", "b", "--namespace-mappings", ns+":"+ns+"-with",
		"--status-include-resources", "crates."+group, "--wait")
	crate.SetNamespace(ns + "-with")
	require.Equal(t, `{"phase":"Full"}`, dug(s.Get(crate), "status"))
}
