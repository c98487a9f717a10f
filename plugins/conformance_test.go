package plugins_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleat-dev/cleat/server/test/programs"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/plugins/filestore"
)

// The built-in plugins keep the same rules as any other plugin, in the server's process and in a process of their own.
// The S3 store is tested against a real server in its own package.
func TestAcceptPlugins_BuiltInsConform(t *testing.T) {
	t.Parallel()
	cleat := programs.Build(t, "server/cmd/cleat")
	for name, target := range map[string]conformance.Target{
		"in process": conformance.InProcess(plugins.All()...),
		"isolated":   conformance.Binary(cleat, "run-plugins"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(path, "bucket"), 0o750))
			report, err := conformance.Run(t.Context(), target, conformance.WithTimeout(10*time.Minute),
				conformance.WithSizes(120, 2<<20), conformance.WithLeakCalls(60),
				conformance.WithConfig(filestore.Name, map[string]string{"path": path, "bucket": "bucket"}))
			require.NoError(t, err)
			for _, plugin := range report.Plugins {
				for _, result := range plugin.Results {
					if result.Outcome == conformance.Failed || result.Outcome == conformance.Warned {
						t.Errorf("%s: %s: %s\nSeen: %s", plugin, result.Rule, result.Text, result.Seen)
					}
				}
			}
			require.Len(t, report.Plugins, 1+len(plugins.All()))
			t.Log(report.Summary())
		})
	}
}
