package nodeagent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
)

// TestAcceptTrust_VerifyVolumes backs up volumes of a pod with the data mover, and verifies them: as they are, after
// the snapshot of one was forgotten, and after the repository was taken away.
func TestAcceptTrust_VerifyVolumes(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.runAgent()
	f.serve()
	namespace, _ := f.shop()
	spec := velerov1.BackupSpec{IncludedNamespaces: []string{namespace}}
	require.NotEqual(t, velerov1.BackupPhaseFailed, f.backUp("first", spec).Status.Phase)
	require.NotEqual(t, velerov1.BackupPhaseFailed, f.backUp("second", spec).Status.Phase)
	content, err := os.ReadFile(filepath.Join(f.bucket, "backups", "first", "first-checksums.json"))
	require.NoError(t, err)
	d, err := trust.Parse(content)
	require.NoError(t, err)
	require.NotEmpty(t, d.Volumes, "the checksums have the snapshots of the volumes")
	for _, v := range d.Volumes {
		require.Equal(t, trust.Repository, v.Kind)
		require.Equal(t, velerov1.KopiaDataMover, v.By)
		require.NotEmpty(t, v.Snapshot)
	}
	for _, depth := range []string{"volumes", "data"} {
		out, err := f.cleat("backup", "verify", "first", "--depth", depth)
		require.NoError(t, err, out)
		require.Contains(t, out, "Intact")
		require.NotContains(t, out, "not looked")
	}
	out, err := f.cleat("backup", "verify", "first")
	require.NoError(t, err, out)
	require.Contains(t, out, "volumes were not looked at")

	// Another backup is deleted with its snapshots; those of the first one stay.
	out, err = f.cleat("backup", "delete", "second", "--confirm", "--wait")
	require.NoError(t, err, out)
	out, err = f.cleat("backup", "verify", "first", "--depth", "volumes")
	require.NoError(t, err, out)

	require.NoError(t, os.Rename(filepath.Join(f.bucket, "kopia"), filepath.Join(t.TempDir(), "kopia")))
	out, err = f.cleat("backup", "verify", "first", "--depth", "volumes")
	require.Error(t, err)
	require.Contains(t, out, "missing: volume data of pod "+namespace+"/db: the repository that has the data of the "+
		"volume is missing")
	require.Contains(t, out, "1 of 1 backup is not intact")
}
