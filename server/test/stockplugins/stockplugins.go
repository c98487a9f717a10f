// Package stockplugins builds plugins like those that vendors ship for Velero: with a library like Velero's and the versions of
// go-plugin, gRPC and protobuf of several years. Each year is a separate module; the directory library is the same for all.
// Tests run the plugins to check that such plugins work unmodified. The package only imports the standard library. Start reading
// at Build.
package stockplugins

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Years returns the years for which there is a plugin.
//
//	2020  go-plugin 1.0, gRPC 1.26: ObjectStore, VolumeSnapshotter, BackupItemAction, RestoreItemAction
//	2022  go-plugin 1.4, gRPC 1.40: BackupItemAction, RestoreItemAction, DeleteItemAction
//	2024  go-plugin 1.6, gRPC 1.63: BackupItemAction 1 and 2, RestoreItemAction 2, ItemBlockAction
func Years() []string { return []string{"2020", "2022", "2024"} }

// Build builds the plugin of a year in dir and returns the path of its binary, e.g. "stock-2020".
func Build(ctx context.Context, year, dir string) (string, error) {
	here, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/cleat-dev/cleat/server/test/stockplugins").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of the plugin of %s: %w", year, err)
	}
	binary, err := filepath.Abs(filepath.Join(dir, "stock-"+year))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-mod=readonly", "-o", binary, ".")
	build.Dir = filepath.Join(strings.TrimSpace(string(here)), year)
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the plugin of %s: %w: %s", year, err, out)
	}
	return binary, nil
}
