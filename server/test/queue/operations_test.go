package queue_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptQueue_WaitingForOperations shows that a backup that waits for operations blocks only the namespaces on
// which the operations work. It holds no slot.
func TestAcceptQueue_WaitingForOperations(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	server := s.Serve(append(w.Args, "--concurrent-backups", "1")...)
	s.Available()
	busy, idle, other := s.Workload(1), s.Workload(1), s.Workload(1)
	s.Item(busy, "work", "keyed", "length", "1h")
	s.BeginBackupOf("first", busy, idle)
	first := s.AwaitBackup("first", velerov1.BackupPhaseWaitingForPluginOperations)
	require.Equal(t, busy, first.Annotations["cleat.dev/occupied-namespaces"])

	s.BeginBackupOf("same", busy)
	s.BeginBackupOf("elsewhere", other)
	s.BeginBackupOf("besides", idle)
	s.AwaitCompleted([]string{"elsewhere", "besides"})
	same := s.AwaitBackup("same", velerov1.BackupPhaseQueued)
	require.Equal(t, 1, same.Status.QueuePosition)
	s.Eventually("the reason is shown", func(context.Context) (bool, error) {
		out, _, err := s.Run("queue")
		return strings.Contains(out, "same") && strings.Contains(out, "waits for operations of plugins"), err
	})

	// The next server gets this from the custom resources alone.
	server.Kill()
	s.Serve(append(w.Args, "--concurrent-backups", "1")...)
	s.BeginBackupOf("after", other)
	s.AwaitBackup("after", velerov1.BackupPhaseCompleted)
	s.AwaitBackup("same", velerov1.BackupPhaseQueued)
	s.RequestCancel(&velerov1.Backup{}, "first")
	s.AwaitBackup("first", velerov1.BackupPhasePartiallyFailed)
	w.AwaitNote("begun backup/" + busy + "/work")
	s.AwaitBackup("same", velerov1.BackupPhaseWaitingForPluginOperations)
}

// TestItemOverlapKeepsBackupsApartFromRestores shows the reason why a backup waits while a restore writes: objects of
// the same resource in the same namespace, under the policy cleat.dev/item-overlap. Under the default policy it does
// not wait.
func TestItemOverlapKeepsBackupsApartFromRestores(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	server := s.Serve(w.Args...)
	s.Available()
	shop, copied := s.Workload(1), s.Workload(0)
	s.Item(shop, "work", "keyed", "length", "1h", "in", "restore")
	s.BeginBackupOf("source", shop)
	s.AwaitBackup("source", velerov1.BackupPhaseCompleted)
	s.RestoreTo("r", "source", shop, copied)
	r := s.AwaitRestore("r", velerov1.RestorePhaseWaitingForPluginOperations)
	require.Contains(t, r.Annotations["cleat.dev/restore-scope"], `"namespaces":["`+copied+`"]`)

	s.BeginBackupOf("default-policy", copied)
	s.AwaitBackup("default-policy", velerov1.BackupPhaseCompleted)
	server.Kill()
	w.Set("backups: {admission: {plugin: cleat.dev/item-overlap}}")
	s.Serve(w.Args...)
	s.BeginBackupOf("same", copied)
	s.BeginBackupOf("source-again", shop)
	s.AwaitBackup("source-again", velerov1.BackupPhaseCompleted)
	same := s.AwaitBackup("same", velerov1.BackupPhaseQueued)
	wait, err := velerov1.QueueWaitOf(same)
	require.NoError(t, err)
	require.Equal(t, "shares namespace "+copied+" with restores/r, which restores objects", wait.Message)
	s.RequestCancel(&velerov1.Restore{}, "r")
	s.AwaitBackup("same", velerov1.BackupPhaseCompleted)
}
