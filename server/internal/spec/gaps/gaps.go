// Package gaps lists the fields of Backups and Restores without effect, each with the warning for a run that sets it. A
// test shows that all other fields have an effect. Fields that concern the data of volumes, or the operations of
// plugins, cause no warning in a run without them.
//
// Fields that the server does not know at all are in unknown.go.
//
// The package imports the types of custom resources, and apimachinery. Package config has the table of the flags without
// effect.
package gaps

import (
	"slices"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Gap is a field that the server does not act on.
type Gap[S any] struct {
	Field   string // path in the resource, such as "spec.hooks"
	asks    func(*S) bool
	warning string
}

// Warnings returns the warnings for the gaps that a spec uses.
func Warnings[S any](gaps []Gap[S], spec *S) []string {
	var warnings []string
	for _, gap := range gaps {
		if gap.asks(spec) {
			warnings = append(warnings, gap.Field+": "+gap.warning)
		}
	}
	return warnings
}

// Fields returns the fields of the gaps that a spec uses, as one text; empty if there are none.
func Fields[S any](gaps []Gap[S], spec *S) string {
	var fields []string
	for _, gap := range gaps {
		if gap.asks(spec) {
			fields = append(fields, gap.Field)
		}
	}
	return strings.Join(fields, ", ")
}

// Values that clients and servers write into fields that the user has not set.
const (
	defaultSnapshotTimeout = 10 * time.Minute
	defaultGroupLabel      = "velero.io/volume-group"
)

// VolumesWithoutCSI returns the gaps of a backup that has volumes, if no snapshots of CSI volumes are taken because the
// server runs without --features=EnableCSI.
func VolumesWithoutCSI() []Gap[velerov1.BackupSpec] {
	const off = "it has no effect without --features=EnableCSI of the server"
	return []Gap[velerov1.BackupSpec]{
		{"spec.csiSnapshotTimeout", func(s *velerov1.BackupSpec) bool {
			return s.CSISnapshotTimeout.Duration != 0 && s.CSISnapshotTimeout.Duration != defaultSnapshotTimeout
		}, off},
		{"spec.volumeGroupSnapshotLabelKey", func(s *velerov1.BackupSpec) bool {
			return s.VolumeGroupSnapshotLabelKey != "" && s.VolumeGroupSnapshotLabelKey != defaultGroupLabel
		}, "it only keeps the volumes of a group in one item block without --features=EnableCSI of the server"},
		{"spec.snapshotMoveData", func(s *velerov1.BackupSpec) bool { return isTrue(s.SnapshotMoveData) }, off},
		{"spec.datamover", func(s *velerov1.BackupSpec) bool { return s.DataMover != "" }, off},
	}
}

// Backup returns the gaps of a backup that do not depend on its contents.
func Backup() []Gap[velerov1.BackupSpec] {
	return []Gap[velerov1.BackupSpec]{
		{"spec.backupType", func(s *velerov1.BackupSpec) bool {
			return s.BackupType != "" && s.BackupType != velerov1.BackupTypeIncremental
		}, "volumes are backed up incrementally, since data movers upload what their repositories do not have; the value " +
			"has no effect"},
	}
}

// Restore returns the gaps of a restore that do not depend on its contents.
func Restore() []Gap[velerov1.RestoreSpec] {
	return []Gap[velerov1.RestoreSpec]{
		{"spec.hooks.resources[].postHooks[].init.timeout", func(s *velerov1.RestoreSpec) bool {
			return anyHook(s, func(h *velerov1.RestoreResourceHook) bool {
				return h.Init != nil && h.Init.Timeout.Duration != 0
			})
		}, "the restore does not wait for init containers, as in Velero; the field has no effect"},
		{"spec.hooks.resources[].includedResources", func(s *velerov1.RestoreSpec) bool {
			return slices.ContainsFunc(s.Hooks.Resources, func(h velerov1.RestoreResourceHookSpec) bool {
				return len(h.IncludedResources) > 0 && !slices.ContainsFunc(h.IncludedResources, isPods)
			})
		}, "hooks apply to pods only, and to all that the other fields select, as in Velero; the field has no effect"},
		{"spec.hooks.resources[].excludedResources", func(s *velerov1.RestoreSpec) bool {
			return slices.ContainsFunc(s.Hooks.Resources,
				func(h velerov1.RestoreResourceHookSpec) bool { return len(h.ExcludedResources) > 0 })
		}, "hooks apply to pods only, and to all that the other fields select, as in Velero; the field has no effect"},
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

func isPods(resource string) bool {
	return slices.Contains([]string{"*", "pods", "pod", "po"}, strings.ToLower(resource))
}

func anyHook(spec *velerov1.RestoreSpec, is func(*velerov1.RestoreResourceHook) bool) bool {
	return slices.ContainsFunc(spec.Hooks.Resources, func(r velerov1.RestoreResourceHookSpec) bool {
		return slices.ContainsFunc(r.PostHooks, func(h velerov1.RestoreResourceHook) bool { return is(&h) })
	})
}
