package pluginhost

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

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
