// Package stockplugins builds plugins like those that vendors deliver for Velero: with a library like Velero's and the
// versions of go-plugin, gRPC and protobuf of several years. Each year is a separate module; the directory library is
// the same for all. Tests run the plugins to check that such plugins work unmodified. The package imports programs
// only. Start reading at Build.
package stockplugins

import (
	"fmt"
	"path/filepath"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// Years returns the years for which there is a plugin.
//
//	2020  go-plugin 1.0, gRPC 1.26: ObjectStore, VolumeSnapshotter, BackupItemAction, RestoreItemAction
//	2022  go-plugin 1.4, gRPC 1.40: BackupItemAction, RestoreItemAction, DeleteItemAction
//	2024  go-plugin 1.6, gRPC 1.63: BackupItemAction 1 and 2, RestoreItemAction 2, ItemBlockAction
func Years() []string { return []string{"2020", "2022", "2024"} }

// Tape is an argument of Build for a plugin with an object store that Velero tolerates, see its documentation.
const Tape = "tape"

// Disks is an argument of Build for a plugin with a volume snapshotter whose disks and snapshots are files.
const Disks = "disks"

// Hosted is an argument of Build for a plugin that keeps the state of a run in its process.
const Hosted = "hosted"

// Build builds the plugin of a year, Tape, Disks or Hosted, and copies it to dir. It returns the path of the copy, e.g.
// "stock-2020".
func Build(year, dir string) (string, error) {
	built, err := programs.BuildModule("server/test/stockplugins/" + year)
	if err != nil {
		return "", fmt.Errorf("build the plugin of %s: %w", year, err)
	}
	binary, err := filepath.Abs(filepath.Join(dir, "stock-"+year))
	if err != nil {
		return "", err
	}
	return binary, programs.CopyFile(built, binary)
}
