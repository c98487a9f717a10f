package pluginhost

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// TestAcceptPlugins_RolesOfVelerosPlugins compares what the built-ins declare with what the table has for plugins of
// the same name that are built for Velero and cannot declare roles. Other names have no roles.
func TestAcceptPlugins_RolesOfVelerosPlugins(t *testing.T) {
	t.Parallel()
	host, err := New(t.Context(), Config{BuiltIns: plugins.All(), Log: hclog.NewNullLogger()})
	require.NoError(t, err)
	t.Cleanup(host.Close)
	// Velero's own do not promise these.
	ours := []framework.Role{framework.RoleDryRun, framework.RoleNodeFiles, framework.RoleInFront}
	known := []framework.Role{
		framework.RoleCSI, framework.RoleClaimSnapshots, framework.RoleOwnSnapshots, framework.RoleSnapshotObjects,
		framework.RolePodVolumes, framework.RoleClaimRestores, framework.RolePodVolumeRestores,
	}
	own := map[string]framework.Role{ // of plugins that Velero does not have
		"cleat.dev/pod-volume-backup": framework.RolePodVolumes, "cleat.dev/dataupload": framework.RoleCSI,
	}
	roles := 0
	for _, entry := range host.Entries() {
		for _, role := range known {
			declares := host.HasRole(entry.Name, role)
			if declared, ok := own[entry.Name]; ok {
				require.False(t, IsRoleOfVelero(entry.Name, role))
				require.Equal(t, role == declared, declares)
				continue
			}
			require.Equal(t, declares, IsRoleOfVelero(entry.Name, role), "%s: %s", entry.Name, role)
			if declares {
				roles++
			}
		}
		for _, role := range ours {
			require.False(t, IsRoleOfVelero(entry.Name, role))
		}
	}
	require.Greater(t, roles, 10)
	require.True(t, host.HasRole("cleat.dev/file", framework.RoleNodeFiles))
	require.False(t, host.HasRole("cleat.dev/s3", framework.RoleNodeFiles))
	require.True(t, host.HasRole("velero.io/vsphere-pvc-backupper", framework.RoleOwnSnapshots), "a record names it")
	require.False(t, host.HasRole("example.io/pvc-backupper", framework.RoleClaimSnapshots))

	// A process without PluginInfo has the roles of the table, and one with it those that it declares.
	list := []versioning.Described{
		{Listed: versioning.Listed{Kind: "BackupItemActionV2", Name: "velero.io/csi-pvc-backupper"}},
		{Listed: versioning.Listed{Kind: "BackupItemAction", Name: "velero.io/vsphere-pvc-backupper"}},
		{Listed: versioning.Listed{Kind: "BackupItemAction", Name: "example.io/other"}, Roles: ours[:1]},
	}
	for informed, want := range map[bool][]bool{false: {true, true, false}, true: {false, false, true}} {
		from := &source{command: "file", asked: nil}
		from.offer = versioning.Description{Informed: informed, Plugins: list}
		c := newCatalog(kinds.All(), nil, nil, order{}, []*source{from})
		require.Equal(t, want, []bool{
			c.hasRole("velero.io/csi-pvc-backupper", framework.RoleClaimSnapshots),
			c.hasRole("velero.io/vsphere-pvc-backupper", framework.RoleOwnSnapshots),
			c.hasRole("example.io/other", framework.RoleDryRun),
		}, "informed: %v", informed)
	}
}

// TestDisabledBuiltInsAreAsGoodAsAbsent disables one by its name, and all.
func TestDisabledBuiltInsAreAsGoodAsAbsent(t *testing.T) {
	t.Parallel()
	for _, disabled := range [][]string{nil, {"velero.io/pod"}, {"*"}} {
		file := config.Plugins{DisabledBuiltIns: disabled}
		host, err := New(t.Context(), Config{BuiltIns: plugins.All(), Disabled: file.Disables, Log: hclog.NewNullLogger()})
		require.NoError(t, err)
		t.Cleanup(host.Close)
		_, err = host.Find("BackupItemAction", "velero.io/pod")
		require.Equal(t, disabled == nil, err == nil)
		_, err = host.Find("BackupItemAction", "velero.io/pv")
		require.Equal(t, len(disabled) == 0 || disabled[0] != "*", err == nil)
	}
}
