package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

// TestScopeIsKnownBeforeTheFirstWrite restores with several filters, and compares the scopes that the engine
// announces.
func TestScopeIsKnownBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, test := range map[string]struct {
		spec velerov1.RestoreSpec
		want Scope
	}{
		"everything": {want: Scope{
			Namespaces: []string{"scope-a", "scope-b"}, Resources: []string{"configmaps", "namespaces", "secrets"},
			Cluster: true,
		}},
		"into another namespace": {
			spec: velerov1.RestoreSpec{
				IncludedNamespaces: []string{"scope-a"}, IncludedResources: []string{"configmaps"},
				NamespaceMapping: map[string]string{"scope-a": "scope-c"},
			},
			want: Scope{Namespaces: []string{"scope-c"}, Resources: []string{"configmaps"}},
		},
		"nothing": {spec: velerov1.RestoreSpec{IncludedResources: []string{"pods"}}, want: Scope{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			things := []thing{
				configMap("scope-a", "one", nil), configMap("scope-a", "two", nil), configMap("scope-b", "one", nil),
				in("secrets", "v1", "Secret", "scope-b", "one", nil), namespaceThing("scope-a", nil),
			}
			restore := newRestore("scope", nil)
			restore.Spec = test.spec
			restore.Spec.BackupName = "b"
			var got *Scope
			_, err := Run(t.Context(), Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero,
				Discovery: helperFor(t, c.config), Options: testOptions()},
				Request{
					Restore: restore, Archive: pack(t, things...), Log: testLog(t),
					Begun: func(s Scope) { got = &s },
				})
			require.NoError(t, err)
			require.NotNil(t, got)
			require.ElementsMatch(t, test.want.Namespaces, got.Namespaces)
			require.ElementsMatch(t, test.want.Resources, got.Resources)
			require.Equal(t, test.want.Cluster, got.Cluster)
		})
	}
}
