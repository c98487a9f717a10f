package filter_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

func TestPolicyAddsToSpec(t *testing.T) {
	t.Parallel()
	type names = []string
	for name, row := range map[string]struct {
		spec, policy filter.ScopedLists
		want         names
		unresolved   names
	}{
		"no policy": {want: names{"pods", "secrets", "deployments.apps", "namespaces", "persistentvolumes"}},
		"includes instead of all": {policy: filter.ScopedLists{IncludedNamespaced: names{"po"}},
			want: names{"pods", "namespaces"}},
		"excludes from all": {policy: filter.ScopedLists{ExcludedNamespaced: names{"secret"},
			ExcludedClusterScoped: names{"pv"}}, want: names{"pods", "deployments.apps", "namespaces"}},
		"cluster includes": {policy: filter.ScopedLists{IncludedClusterScoped: names{"pv"},
			IncludedNamespaced: names{"po"}}, want: names{"pods", "namespaces", "persistentvolumes"}},
		"includes add up": {spec: filter.ScopedLists{IncludedNamespaced: names{"pods"}},
			policy: filter.ScopedLists{IncludedNamespaced: names{"secrets"}}, want: names{"pods", "secrets", "namespaces"}},
		"excludes add up": {spec: filter.ScopedLists{ExcludedNamespaced: names{"pods"},
			IncludedClusterScoped: names{"*"}}, policy: filter.ScopedLists{ExcludedNamespaced: names{"secrets"}},
			want: names{"deployments.apps", "namespaces", "persistentvolumes"}},
		"an include of the spec wins, by any name": {
			spec: filter.ScopedLists{IncludedNamespaced: names{"po", "secrets"}}, policy: filter.ScopedLists{
				ExcludedNamespaced: names{"pods"},
			}, want: names{"pods", "secrets", "namespaces"}},
		"an exclude of the spec wins": {
			spec:   filter.ScopedLists{ExcludedClusterScoped: names{"pv"}, IncludedNamespaced: names{"pods"}},
			policy: filter.ScopedLists{IncludedClusterScoped: names{"persistentvolumes"}}, want: names{"pods", "namespaces"}},
		"all of the spec wins": {
			spec: filter.ScopedLists{IncludedNamespaced: names{"*"}}, policy: filter.ScopedLists{
				ExcludedNamespaced: names{"secrets"}, IncludedNamespaced: names{"pods"}, ExcludedClusterScoped: names{"pv"},
			},
			want: names{"pods", "secrets", "deployments.apps", "namespaces"}},
		"patterns of the spec win": {
			spec: filter.ScopedLists{IncludedNamespaced: names{"p*"}}, policy: filter.ScopedLists{
				ExcludedNamespaced: names{"pods", "secrets"}, IncludedNamespaced: names{"deployments"},
			}, want: names{"pods", "deployments.apps", "namespaces"}},
		"excludes of the policy win over its includes": {
			policy: filter.ScopedLists{ExcludedNamespaced: names{"pods"}, IncludedNamespaced: names{"po", "secrets"}},
			want:   names{"secrets", "namespaces"}},
		"patterns of the policy": {policy: filter.ScopedLists{ExcludedNamespaced: names{"*.apps"}},
			want: names{"pods", "secrets", "namespaces"}},
		"names of nothing": {
			policy: filter.ScopedLists{IncludedNamespaced: names{"unicorns"}, ExcludedClusterScoped: names{"pods"}},
			want:   names{"namespaces"},
			unresolved: names{"resourcePolicy.includeExcludePolicy.includedNamespaceScopedResources: unicorns",
				"resourcePolicy.includeExcludePolicy.excludedClusterScopedResources: pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, err := filter.NewNamespaces(nil, nil, nil)
			require.NoError(t, err)
			resources, unresolved, err := filter.NewResources(filter.ResourceLists{
				IncludedClusterScoped: row.spec.IncludedClusterScoped, ExcludedClusterScoped: row.spec.ExcludedClusterScoped,
				IncludedNamespaced: row.spec.IncludedNamespaced, ExcludedNamespaced: row.spec.ExcludedNamespaced,
				Policy: row.policy,
			}, ns, cluster())
			require.NoError(t, err)
			require.Equal(t, row.unresolved, unresolved)
			var got names
			for _, res := range cluster().Resources() {
				if resources.Includes(res) {
					got = append(got, res.GroupResource().String())
				}
			}
			require.ElementsMatch(t, row.want, got)
			require.True(t, slices.Contains(got, "namespaces"))
		})
	}
	ns, err := filter.NewNamespaces(nil, nil, nil)
	require.NoError(t, err)
	_, _, err = filter.NewResources(filter.ResourceLists{Included: []string{"pods"},
		Policy: filter.ScopedLists{IncludedNamespaced: []string{"pods"}}}, ns, cluster())
	require.ErrorContains(t, err, "use one family")
	_, _, err = filter.NewResources(filter.ResourceLists{Policy: filter.ScopedLists{IncludedNamespaced: []string{"["}}},
		ns, cluster())
	require.ErrorContains(t, err, `pattern "["`)
}
