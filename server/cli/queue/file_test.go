package queue

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

func FuzzParseBackups(f *testing.F) {
	for _, path := range []string{scenario, "testdata/mistakes.yaml"} {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("kind: List\nitems: [{kind: List, items: [&a {kind: Backup, spec: *a}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		backups, problems, err := parseBackups("x.yaml", data, statustest.Noon())
		for _, problem := range append(problems, err) {
			if problem != nil {
				require.ErrorContains(t, problem, "x.yaml")
			}
		}
		names := map[string]bool{}
		for _, b := range backups {
			require.False(t, names[b.Name], "each once")
			names[b.Name] = true
			require.Contains(t, backupPhases(), b.Status.Phase)
			require.NotEqual(t, velerov1.BackupPhase("Waiting"), b.Status.Phase)
		}
	})
}
