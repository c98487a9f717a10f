package filter

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

func rulesSnapshot() *discovery.Snapshot {
	verbs := metav1.Verbs{"create", "delete", "get", "list"}
	return discovery.NewSnapshot(nil, []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", ShortNames: []string{"cm"}, Namespaced: true,
				Verbs: verbs},
			{Name: "secrets", SingularName: "secret", Kind: "Secret", Namespaced: true, Verbs: verbs},
		}},
		{GroupVersion: "apps/v1",
			APIResources: []metav1.APIResource{{Name: "deployments", SingularName: "deployment", Kind: "Deployment",
				Namespaced: true, Verbs: verbs}}},
		{GroupVersion: "storage.k8s.io/v1",
			APIResources: []metav1.APIResource{{Name: "storageclasses", SingularName: "storageclass", Kind: "StorageClass",
				Verbs: verbs}}},
	})
}

func names(t *testing.T, includes, excludes []string) Names {
	t.Helper()
	n, err := NewNames(includes, excludes)
	require.NoError(t, err)
	return n
}

func TestRulesSelectByNamespaceKindLabelsAndName(t *testing.T) {
	t.Parallel()
	app := []labels.Selector{labels.SelectorFromSet(labels.Set{"app": "a"}),
		labels.SelectorFromSet(labels.Set{"app": "b"})}
	rules, warnings, err := NewRules(RuleLists{
		Cluster: []Rule{{Kinds: []string{"StorageClass"}, Names: names(t, []string{"fast-*"}, nil)}},
		Namespaces: []NamespaceRules{
			{Namespaces: []string{"team-*"}, Rules: []Rule{{Kinds: []string{"ConfigMap", "Widget"}, Selectors: app}}},
			{Namespaces: []string{"team-x", "all"},
				Rules: []Rule{{Kinds: []string{"secrets"}, Names: names(t, []string{"s-*"}, []string{"*-tmp"})},
					{Kinds: []string{"*"}}}},
		},
	}, rulesSnapshot())
	require.NoError(t, err)
	require.Equal(t, []string{"kind Widget of a resource filter is not a resource of this cluster"}, warnings)
	require.True(t, rules.Any())
	for name, tt := range map[string]struct {
		gr, kind, namespace, name, app string
		selected, decided              bool
	}{
		"another namespace":     {gr: "configmaps", namespace: "other"},
		"labels":                {gr: "configmaps", namespace: "team-a", app: "b", selected: true, decided: true},
		"other labels":          {gr: "configmaps", namespace: "team-a", app: "c", decided: true},
		"a kind without a rule": {gr: "secrets", namespace: "team-a", app: "a", decided: true},
		"a kind that is not served yet": {gr: "widgets.example.org", kind: "Widget", namespace: "team-a", app: "a",
			selected: true, decided: true},
		"the exact name comes first":    {gr: "secrets", namespace: "team-x", name: "s-1", selected: true, decided: true},
		"another name":                  {gr: "secrets", namespace: "team-x", name: "t", decided: true},
		"an excluded name":              {gr: "secrets", namespace: "team-x", name: "s-tmp", decided: true},
		"the rest":                      {gr: "deployments.apps", namespace: "all", name: "x", selected: true, decided: true},
		"cluster-scoped":                {gr: "storageclasses.storage.k8s.io", name: "fast-1", selected: true, decided: true},
		"cluster-scoped, another name":  {gr: "storageclasses.storage.k8s.io", name: "slow", decided: true},
		"cluster-scoped without a rule": {gr: "persistentvolumes", name: "fast-1"},
	} {
		selected, decided := rules.Select(schema.ParseGroupResource(tt.gr), tt.kind, tt.namespace, tt.name,
			map[string]string{"app": tt.app})
		require.Equal(t, tt.selected, selected, name)
		require.Equal(t, tt.decided, decided, name)
	}
	require.True(t, rules.AllowsName(schema.ParseGroupResource("secrets"), "team-a", "any"),
		"what another object needs is not left out for its kind")
	require.False(t, rules.AllowsName(schema.ParseGroupResource("secrets"), "team-x", "t"))
	require.True(t, rules.AllowsName(schema.ParseGroupResource("secrets"), "other", "t"))

	var none Rules
	_, decided := none.Select(schema.ParseGroupResource("secrets"), "Secret", "a", "b", nil)
	require.False(t, decided)
	require.False(t, none.Any())
	require.True(t, none.AllowsName(schema.ParseGroupResource("secrets"), "a", "b"))
}

func TestRulesReportKindsInTheWrongPlace(t *testing.T) {
	t.Parallel()
	_, warnings, err := NewRules(RuleLists{
		Cluster:    []Rule{{Kinds: []string{"Secret"}}},
		Namespaces: []NamespaceRules{{Namespaces: []string{"a"}, Rules: []Rule{{Kinds: []string{"storageclass"}}}}},
	}, rulesSnapshot())
	require.NoError(t, err)
	require.Equal(t, []string{
		"kind Secret of a resource filter matches nothing where it is; it belongs in namespacedFilterPolicies",
		"kind storageclass of a resource filter matches nothing where it is; it belongs in clusterScopedFilterPolicy",
	}, warnings)
	_, _, err = NewRules(RuleLists{
		Namespaces: []NamespaceRules{{Namespaces: []string{"a"},
			Rules: []Rule{{Kinds: []string{"cm"}}, {Kinds: []string{"ConfigMap"}}}}},
	}, rulesSnapshot())
	require.EqualError(t, err, "namespacedFilterPolicies[0]: kind ConfigMap is in two resource filters, want it in one")
}
