package main_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptQueue_WaitingForOperations shows what a backup that waits for operations takes from others: the namespaces
// that the operations work on, and nothing else. It holds no slot.
func TestAcceptQueue_WaitingForOperations(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	w := s.work()
	server := s.serve(append(w.args, "--concurrent-backups", "1")...)
	s.available()
	busy, idle, other := s.workload(1), s.workload(1), s.workload(1)
	s.item(busy, "work", "keyed", "length", "1h")
	s.beginBackupOf("first", busy, idle)
	first := s.awaitBackup("first", velerov1.BackupPhaseWaitingForPluginOperations)
	require.Equal(t, busy, first.Annotations["cleat.dev/occupied-namespaces"])

	s.beginBackupOf("same", busy)
	s.beginBackupOf("elsewhere", other)
	s.beginBackupOf("besides", idle)
	s.awaitCompleted([]string{"elsewhere", "besides"})
	same := s.awaitBackup("same", velerov1.BackupPhaseQueued)
	require.Equal(t, 1, same.Status.QueuePosition)
	s.eventually("the reason is shown", func(context.Context) (bool, error) {
		out, _, err := s.run("queue")
		return strings.Contains(out, "same") && strings.Contains(out, "waits for operations of plugins"), err
	})

	// The next server knows it from the custom resources alone.
	server.kill()
	s.serve(append(w.args, "--concurrent-backups", "1")...)
	s.beginBackupOf("after", other)
	s.awaitBackup("after", velerov1.BackupPhaseCompleted)
	s.awaitBackup("same", velerov1.BackupPhaseQueued)
	s.requestCancel(&velerov1.Backup{}, "first")
	s.awaitBackup("first", velerov1.BackupPhasePartiallyFailed)
	w.awaitNote("begun backup/" + busy + "/work")
	s.awaitBackup("same", velerov1.BackupPhaseWaitingForPluginOperations)
}

// TestItemOverlapKeepsBackupsApartFromRestores shows what a backup waits for while a restore writes: objects of the
// same resource in the same namespace, under the policy cleat.dev/item-overlap, and nothing under the default one.
func TestItemOverlapKeepsBackupsApartFromRestores(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	w := s.work()
	server := s.serve(w.args...)
	s.available()
	shop, copied := s.workload(1), s.workload(0)
	s.item(shop, "work", "keyed", "length", "1h", "in", "restore")
	s.beginBackupOf("source", shop)
	s.awaitBackup("source", velerov1.BackupPhaseCompleted)
	s.restoreTo("r", "source", shop, copied)
	r := s.awaitRestore("r", velerov1.RestorePhaseWaitingForPluginOperations)
	require.Contains(t, r.Annotations["cleat.dev/restore-scope"], `"namespaces":["`+copied+`"]`)

	s.beginBackupOf("default-policy", copied)
	s.awaitBackup("default-policy", velerov1.BackupPhaseCompleted)
	server.kill()
	w.set("backups: {admission: {plugin: cleat.dev/item-overlap}}")
	s.serve(w.args...)
	s.beginBackupOf("same", copied)
	s.beginBackupOf("source-again", shop)
	s.awaitBackup("source-again", velerov1.BackupPhaseCompleted)
	same := s.awaitBackup("same", velerov1.BackupPhaseQueued)
	wait, err := velerov1.QueueWaitOf(same)
	require.NoError(t, err)
	require.Equal(t, "shares namespace "+copied+" with restores/r, which restores objects", wait.Message)
	s.requestCancel(&velerov1.Restore{}, "r")
	s.awaitBackup("same", velerov1.BackupPhaseCompleted)
}
