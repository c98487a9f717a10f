package glue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRolesAreThoseOfTheKind(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind  string
		roles []Role
		want  string
	}{
		{"BackupItemActionV2", []Role{RoleCSI, RoleClaimSnapshots}, ""},
		{"AsyncRestoreItemAction", []Role{RolePodVolumeRestores}, ""},
		{"ObjectStore", []Role{RoleNodeFiles}, ""},
		{"DataMover", []Role{RoleMaintainsAlone}, ""},
		{"BackupItemAction", nil, ""},
		{"BackupItemAction", []Role{"stamps"}, `role "stamps" does not exist; see framework.Role for those that do`},
		{"BackupItemAction", []Role{RoleDryRun, RoleDryRun}, `role "dry-run" is there twice`},
		{"RestoreItemAction", []Role{RolePodVolumes},
			`role "pod-volumes" is for [BackupItemAction AsyncBackupItemAction], not for RestoreItemAction`},
	} {
		d := &details{}
		Roles(test.roles)(d)
		err := d.checkRoles(test.kind)
		if test.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, test.want)
	}
}
