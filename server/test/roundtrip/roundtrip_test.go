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

// TestAcceptBackup_RoundTrip runs the steps of the demo: it backs up to S3 with an external plugin, deletes and
// restores, and requires that all objects are the same as before. Then it does the same with data movers and volumes.
// The world is smaller than in the demo, with the same number of kinds.
func TestAcceptBackup_RoundTrip(t *testing.T) {
	t.Parallel()
	cluster := plane.Get(t)
	dir := t.TempDir()
	cleat := programs.Build(t, "server/cmd/cleat")
	programs.Copy(t, "examples/first-plugin", filepath.Join(dir, "plugins", "first-plugin"))
	movers := filepath.Join(dir, "movers")
	programs.Copy(t, "examples/data-mover", filepath.Join(movers, "data-mover"))
	programs.Copy(t, "examples/small-mover", filepath.Join(movers, "small-mover"))
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o700))

	spec := world.Demo("trip")
	spec.Namespaces, spec.Large = 6, 3
	options := Options{
		Site: Site{
			Cleat: cleat, PluginDir: filepath.Join(dir, "plugins"), Kubeconfig: cluster.Kubeconfig,
			S3: cluster.S3, Bucket: cluster.NewBucket(t, "roundtrip"), WorkDir: work,
		},
		World: spec, Keep: true, Out: logWriter{t}, Movers: movers,
	}
	report, err := Run(t.Context(), options)
	require.NoError(t, err)
	for _, d := range report.Differences {
		t.Error(d)
	}
	require.GreaterOrEqual(t, report.Objects, 900)
	require.GreaterOrEqual(t, report.Kinds, 25)
	require.GreaterOrEqual(t, report.Described, report.Objects)
	require.Positive(t, report.Marked, "the example plugin was not called")
	require.NoError(t, Movers(t.Context(), options))
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}
