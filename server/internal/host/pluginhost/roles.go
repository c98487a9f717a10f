package pluginhost

import (
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework"
)

// HasRole reports whether the plugin of a name has a role. Names of plugins that are not there are in the records of
// backups that other servers have made; Velero's are known.
func (h *Host) HasRole(name string, role framework.Role) bool { return h.catalog().hasRole(name, role) }

// HasRole is Host.HasRole among the plugins of the session.
func (s *Session) HasRole(name string, role framework.Role) bool {
	return s.plugins.catalog.hasRole(name, role)
}

func (c *catalog) hasRole(name string, role framework.Role) bool {
	there := false
	for _, at := range c.used[name] {
		r := &c.rows[at]
		if !slices.Contains(role.Kinds(), r.kind) {
			continue
		}
		if there = true; !slices.Contains(r.Roles, role) {
			return false // actions of several kinds can have one name
		}
	}
	return there || IsRoleOfVelero(name, role)
}

// IsRoleOfVelero reports whether Velero's plugin of a name has a role.
func IsRoleOfVelero(name string, role framework.Role) bool {
	return slices.ContainsFunc(role.Kinds(), func(kind string) bool {
		return slices.Contains(rolesOfVelero(kind, name), role)
	})
}

// rolesOfVelero returns the roles of Velero's plugins, which cannot declare them; nil for other names.
func rolesOfVelero(kind, name string) (roles []framework.Role) {
	if strings.Contains(name, "velero.io/csi-") { // as Velero finds the actions that need its feature EnableCSI
		roles = append(roles, framework.RoleCSI)
	}
	switch kind + " " + name {
	case "BackupItemAction velero.io/csi-pvc-backupper":
		roles = append(roles, framework.RoleClaimSnapshots)
	case "BackupItemAction velero.io/csi-volumesnapshot-backupper":
		roles = append(roles, framework.RoleSnapshotObjects)
	case "BackupItemAction velero.io/vsphere-pvc-backupper":
		roles = append(roles, framework.RoleOwnSnapshots)
	case "RestoreItemAction velero.io/csi-pvc-restorer":
		roles = append(roles, framework.RoleClaimRestores)
	case "RestoreItemAction velero.io/dataupload":
		roles = append(roles, framework.RoleCSI)
	case "RestoreItemAction velero.io/pod-volume-restore":
		roles = append(roles, framework.RolePodVolumeRestores)
	}
	return slices.DeleteFunc(roles, func(r framework.Role) bool { return !slices.Contains(r.Kinds(), kind) })
}
