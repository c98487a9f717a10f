package roundtrip

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cleat-dev/cleat/server/test/programs"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/world"
)

var plane controlplane.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// TestAcceptBackup_RoundTrip does what the demo does: it backs up to S3 with an external plugin, deletes and restores, and
// requires that all objects are as before.
func TestAcceptBackup_RoundTrip(t *testing.T) {
	t.Parallel()
	cluster := plane.Get(t)
	dir := t.TempDir()
	cleat := programs.Build(t, "server/cmd/cleat")
	programs.Copy(t, "examples/first-plugin", filepath.Join(dir, "plugins", "first-plugin"))
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o700))

	report, err := Run(t.Context(), Options{
		Site: Site{
			Cleat: cleat, PluginDir: filepath.Join(dir, "plugins"), Kubeconfig: cluster.Kubeconfig,
			S3: cluster.S3, Bucket: cluster.NewBucket(t, "roundtrip"), WorkDir: work,
		},
		World: world.Demo("trip"), Keep: true, Out: logWriter{t},
	})
	require.NoError(t, err)
	for _, d := range report.Differences {
		t.Error(d)
	}
	require.GreaterOrEqual(t, report.Objects, 3000)
	require.GreaterOrEqual(t, report.Kinds, 25)
	require.Positive(t, report.Marked, "the example plugin was not called")
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}
