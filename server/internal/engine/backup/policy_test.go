package backup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

func TestResourcePolicyFiltersWhatTheSpecLeavesOpen(t *testing.T) {
	t.Parallel()
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{
		Backup: newBackup(func(s *spec) {
			s.IncludedNamespaces = []string{"shop-prod"}
			s.IncludedNamespaceScopedResources = []string{"secrets", "services"}
			s.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "p"}
		}),
		Policy: &resourcepolicy.Policy{Resources: &filter.ScopedLists{
			IncludedNamespaced: []string{"wd", "unicorns"}, ExcludedNamespaced: []string{"secret"},
			IncludedClusterScoped: []string{"gadgets"},
		}},
	})
	require.ElementsMatch(t, []string{
		"namespaces:shop-prod", "secrets:shop-prod/password", "services:shop-prod/web", "widgets.example.com:shop-prod/round",
		"gadgets.example.com:lamp",
		"customresourcedefinitions.apiextensions.k8s.io:widgets.example.com",
		"customresourcedefinitions.apiextensions.k8s.io:gadgets.example.com",
	}, b.fixtureIDs())
	requireMessages(t, []string{"spec.resourcePolicy.includeExcludePolicy.includedNamespaceScopedResources: unicorns is " +
		"not a resource"}, b.Results.Warnings.Velero, b.Warnings)
}
