package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestVersionsSayWhetherTheyStartOperations(t *testing.T) {
	t.Parallel()
	want := map[string]versioning.Starts{
		"BackupItemAction": versioning.NoOperations, "BackupItemActionV2": versioning.Unkeyed,
		"AsyncBackupItemAction": versioning.Keyed,
		"RestoreItemAction":     versioning.NoOperations, "RestoreItemActionV2": versioning.Unkeyed,
		"AsyncRestoreItemAction": versioning.Keyed,
	}
	got := map[string]versioning.Starts{}
	for _, kind := range kinds.BackupItemActions() {
		for _, version := range kind.Versions {
			got[version.Wire] = version.Bind(nil, "example.io/a").Starts()
		}
	}
	for _, kind := range kinds.RestoreItemActions() {
		for _, version := range kind.Versions {
			got[version.Wire] = version.Bind(nil, "example.io/a").Starts()
		}
	}
	require.Equal(t, want, got)
}
