package operations_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// awaitLogs waits until the log of a "backup" or "restore" has all texts, and returns it.
func awaitLogs(s *site.Site, kind, name string, texts ...string) (log string) {
	s.T.Helper()
	s.Eventually(kind+" "+name+" has logged "+strings.Join(texts, ", "), func(context.Context) (bool, error) {
		var err error
		if log, _, err = s.Run(kind, "logs", name); err != nil {
			return false, err
		}
		for _, text := range texts {
			if !strings.Contains(log, text) {
				return false, nil
			}
		}
		return true, nil
	})
	return log
}

// TestAcceptOperations_Logs has operations of one tenant that log while a backup of another one has a session with the
// same process, also after the server was killed. Each line is in the log of its backup or restore, and in no other.
func TestAcceptOperations_Logs(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	w := s.Work()
	server := s.Serve(w.Args...)
	s.Available()
	blue, green := s.Workload(1), s.Workload(1)
	s.Item(blue, "held", "keyed", "length", "held", "logs", "yes", "in", "backup")
	s.Item(blue, "keyless", "keyless", "length", "1h", "logs", "yes", "in", "restore")
	s.Item(green, "stuck", "keyed", "as", "hangs in Start", "logs", "yes")
	s.BeginBackupOf("blue", blue)
	s.AwaitBackup("blue", velerov1.BackupPhaseWaitingForPluginOperations)
	logged := awaitLogs(s, "backup", "blue", `msg="worker: half way"`, `msg="[INFO] printed: half way backup/`+blue+
		`/held"`)
	require.Contains(t, logged, `msg="backup stored"`)

	s.BeginBackupOf("green", green)
	s.AwaitBackup("green", velerov1.BackupPhaseInProgress)
	lines := strings.Count(logged, "worker: half way")
	s.Eventually("more lines come while the other backup calls the process", func(context.Context) (bool, error) {
		logged = awaitLogs(s, "backup", "blue")
		return strings.Count(logged, "worker: half way") > lines+1, nil
	})
	server.Kill()
	server = s.Serve(w.Args...)
	s.Eventually("the next server goes on with the log", func(context.Context) (bool, error) {
		now := awaitLogs(s, "backup", "blue")
		return strings.HasPrefix(now, logged) && strings.Count(now, "worker: half way") > strings.Count(logged,
			"worker: half way"), nil
	})
	s.RequestCancel(&velerov1.Backup{}, "green")
	s.AwaitBackup("green", velerov1.BackupPhaseFailed)
	w.Finish()
	s.AwaitBackup("blue", velerov1.BackupPhaseCompleted)
	logged = awaitLogs(s, "backup", "blue", `msg="worker: ended"`, `msg="operation ended"`,
		`msg="all operations have ended"`)
	for _, once := range []string{`msg="backup started"`, `msg="backup stored"`, `msg="worker: ended"`,
		`msg="operation ended"`, `msg="all operations have ended"`} {
		require.Equal(t, 1, strings.Count(logged, once), once)
	}
	require.NotContains(t, logged, green)
	other := awaitLogs(s, "backup", "green", `msg="backup failed"`)
	require.NotContains(t, other, blue)

	// From here on the process works for two runs, so a line without a run may belong to either.
	red := s.Workload(1)
	s.Item(red, "waits", "keyed", "as", "waits in Start", "in", "backup")
	s.BeginBackupOf("red", red)
	w.AwaitNote("waits backup/" + red + "/waits")
	s.RestoreTo("back", "blue", blue, blue+"-copy")
	s.AwaitRestore("back", velerov1.RestorePhaseWaitingForPluginOperations)
	awaitLogs(s, "restore", "back", `msg="worker: half way"`)
	s.RequestCancel(&velerov1.Restore{}, "back")
	s.AwaitRestore("back", velerov1.RestorePhasePartiallyFailed)
	logged = awaitLogs(s, "restore", "back", `msg="restore done"`, `msg="worker: stopped"`,
		`msg="cancelling an operation"`, `msg="operation ended"`, "was cancelled")
	server.AwaitLine("printed: stopped restore/" + blue)
	require.NotContains(t, logged, "printed: stopped")
	require.NotContains(t, logged, green) // the process is still asked about its stuck item
	require.Equal(t, 1, strings.Count(logged, `msg="worker: stopped"`))
	require.NotContains(t, logged, "backup/"+blue)
	require.NotContains(t, logged, red)
	require.NoError(t, os.WriteFile(filepath.Join(w.Dir, "go"), nil, 0o600))
	s.AwaitBackup("red", velerov1.BackupPhaseCompleted)
	require.NotContains(t, awaitLogs(s, "backup", "red", `msg="all operations have ended"`), "stopped")
}
