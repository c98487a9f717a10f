package glue

import (
	"fmt"
	"slices"
)

// Role is a property of an implementation, beyond its kind, that hosts rely on; see the constants of package framework.
type Role string

// The roles, on the wire.
const (
	RoleCSI               Role = "csi"
	RoleClaimSnapshots    Role = "claim-snapshots"
	RoleOwnSnapshots      Role = "own-snapshots"
	RoleSnapshotObjects   Role = "snapshot-objects"
	RolePodVolumes        Role = "pod-volumes"
	RoleClaimRestores     Role = "claim-restores"
	RolePodVolumeRestores Role = "pod-volume-restores"
	RoleDryRun            Role = "dry-run"
	RoleNodeFiles         Role = "node-files"
	RoleInFront           Role = "in-front"
	RoleMaintainsAlone    Role = "maintains-alone"
)

// Kinds returns the kinds whose implementations can have a role, whatever the version; nil for a role that is not
// known.
func (r Role) Kinds() []string {
	backups := []string{"BackupItemAction", "AsyncBackupItemAction"}
	restores := []string{"RestoreItemAction", "AsyncRestoreItemAction"}
	switch r {
	case RoleCSI, RoleDryRun:
		return slices.Concat(backups, restores, []string{"DeleteItemAction", "ItemBlockAction"})
	case RoleClaimSnapshots, RoleOwnSnapshots, RoleSnapshotObjects, RolePodVolumes:
		return backups
	case RoleClaimRestores, RolePodVolumeRestores:
		return restores
	case RoleNodeFiles, RoleInFront:
		return []string{"ObjectStore"}
	case RoleMaintainsAlone:
		return []string{"DataMover"}
	}
	return nil
}

// Roles declares the roles of an implementation.
func Roles(roles []Role) Option { return func(d *details) { d.roles = append(d.roles, roles...) } }

// checkRoles returns an error if an implementation of a kind cannot have the declared roles.
func (d *details) checkRoles(wire string) error {
	kind, _ := SplitWireKind(wire)
	for i, role := range d.roles {
		switch known := role.Kinds(); {
		case known == nil:
			return fmt.Errorf("role %q does not exist; see framework.Role for those that do", role)
		case !slices.Contains(known, kind):
			return fmt.Errorf("role %q is for %v, not for %s", role, known, kind)
		case slices.Contains(d.roles[:i], role):
			return fmt.Errorf("role %q is there twice", role)
		}
	}
	return nil
}

// sentRoles returns the declared roles in their wire form.
func (d *details) sentRoles() (sent []string) {
	for _, role := range d.roles {
		sent = append(sent, string(role))
	}
	return sent
}
