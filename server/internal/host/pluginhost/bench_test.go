package pluginhost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/stockplugins"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// BenchmarkExecute compares a call into the server's own process with one into another.
func BenchmarkExecute(b *testing.B) {
	binary, err := buildMisbehave()
	require.NoError(b, err)
	for name, isolate := range map[string]bool{"in process": false, "over gRPC": true} {
		b.Run(name, func(b *testing.B) {
			host, err := New(b.Context(), Config{
				Log: hclog.NewNullLogger(), BuiltIns: builtIns("example.io/behave"), Isolate: isolate, Self: binary,
			})
			require.NoError(b, err)
			defer host.Close()
			session := host.Session("", hclog.NewNullLogger())
			defer session.Close()
			action := All(session, kinds.BackupItemActions()...)[0]
			b.ReportAllocs()
			for b.Loop() {
				if _, err := execute(b.Context(), action, "nothing"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRun has a session with one call: what a run pays for a process of its own.
func BenchmarkRun(b *testing.B) {
	for name, year := range map[string]string{"process per run": "2024", "shared process": ""} {
		b.Run(name, func(b *testing.B) {
			dir, plugin := b.TempDir(), "velero.io/stock-2024"
			binary, err := buildMisbehave()
			require.NoError(b, err)
			if year != "" {
				_, err = stockplugins.Build(year, dir)
			} else {
				plugin = "example.io/behave"
				err = os.Link(binary, filepath.Join(dir, "behave"))
			}
			require.NoError(b, err)
			host, err := New(b.Context(), Config{Log: hclog.NewNullLogger(), Dir: dir})
			require.NoError(b, err)
			defer host.Close()
			for b.Loop() {
				session := host.Session("", hclog.NewNullLogger())
				action, err := Named(session, kinds.BackupItemActions()[0], plugin)
				require.NoError(b, err)
				if _, err := execute(b.Context(), action, "nothing"); err != nil {
					b.Fatal(err)
				}
				session.Close()
			}
		})
	}
}
