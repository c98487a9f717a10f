package status

import (
	"cmp"
	"io"
	"path"
	"strconv"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/versioning/objectstore"
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

// PrintLocation writes what "backup-location describe" prints.
func PrintLocation(w io.Writer, l *velerov1.BackupStorageLocation) error {
	d := layout.NewDescription(w)
	printMetadata(d, &l.ObjectMeta)
	d.Gap()
	bucket, prefix := "", ""
	if l.Spec.ObjectStorage != nil {
		bucket, prefix = l.Spec.ObjectStorage.Bucket, l.Spec.ObjectStorage.Prefix
	}
	lines := [][2]string{
		{"Phase", cmp.Or(string(l.Status.Phase), "Unknown")},
	}
	if l.Status.Message != "" {
		lines = append(lines, [2]string{"Message", layout.OneLine(l.Status.Message)})
	}
	d.Pairs(append(lines,
		[2]string{"Last validated", layout.FormatTime(l.Status.LastValidationTime)},
		[2]string{"Last synchronised", layout.FormatTime(l.Status.LastSyncedTime)},
		[2]string{"Default", strconv.FormatBool(l.Spec.Default)},
		[2]string{"Access mode", string(cmp.Or(l.Spec.AccessMode, velerov1.BackupStorageLocationAccessModeReadWrite))},
		[2]string{"Provider", l.Spec.Provider},
		[2]string{"Bucket", bucket},
		[2]string{"Prefix", layout.OrNone(prefix)},
	)...)
	d.Gap()
	printLocks(d, l)
	return d.Err()
}

// printLocks writes what the bucket of a location locks, as it was at the last validation.
func printLocks(d *layout.Description, l *velerov1.BackupStorageLocation) {
	found := locks.Of(l)
	lines := [][2]string{{"Locks", locks.Describe(found)}}
	if found != nil {
		for _, ability := range []struct {
			name   string
			answer objectstore.Answer
		}{
			{"Object Lock", found.Lock}, {"Versions", found.Versions}, {"Conditional writes", found.ConditionalWrites},
		} {
			lines = append(lines, [2]string{ability.name, string(cmp.Or(ability.answer, "unknown"))})
		}
	}
	once := "no"
	switch {
	case locks.Keeps(l):
		once = "yes, because the bucket locks files"
	case l.Annotations[velerov1.WriteOnceAnnotation] == "true":
		once = "yes"
	}
	d.Section("Bucket", func() { d.Pairs(append(lines, [2]string{"Writes each key once", once})...) })
}

// SnapshotLocationTable returns the table of "snapshot-location get".
func SnapshotLocationTable(locations []velerov1.VolumeSnapshotLocation, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "PROVIDER"}}
	for i := range locations {
		t.Rows = append(t.Rows, []string{locations[i].Name, locations[i].Spec.Provider})
	}
	return t
}
