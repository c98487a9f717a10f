package status

import (
	"cmp"
	"path"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
)

// LocationTable returns the table of "backup-location get".
func LocationTable(locations []velerov1.BackupStorageLocation, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "PROVIDER", "BUCKET/PREFIX", "PHASE", "LAST VALIDATED", "ACCESS MODE",
		"DEFAULT"}}
	for i := range locations {
		l := &locations[i]
		bucket := ""
		if l.Spec.ObjectStorage != nil {
			bucket = path.Join(l.Spec.ObjectStorage.Bucket, l.Spec.ObjectStorage.Prefix)
		}
		validated := "Unknown"
		if l.Status.LastValidationTime != nil {
			validated = layout.FormatTime(l.Status.LastValidationTime)
		}
		isDefault := ""
		if l.Spec.Default {
			isDefault = "true"
		}
		t.Rows = append(t.Rows, []string{
			l.Name, l.Spec.Provider, bucket, cmp.Or(string(l.Status.Phase), "Unknown"), validated,
			string(cmp.Or(l.Spec.AccessMode, velerov1.BackupStorageLocationAccessModeReadWrite)), isDefault,
		})
	}
	return t
}

// SnapshotLocationTable returns the table of "snapshot-location get".
func SnapshotLocationTable(locations []velerov1.VolumeSnapshotLocation, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "PROVIDER"}}
	for i := range locations {
		t.Rows = append(t.Rows, []string{locations[i].Name, locations[i].Spec.Provider})
	}
	return t
}
