package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// Two runs call one process at the same time. What it logs for a call is in the log of the run that made the call.
func TestAcceptPlugins_LogsOfRuns(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	const runs, itemsOfEach = 2, 40
	var logs [runs]lines
	var all sync.WaitGroup
	started := make(chan struct{}, runs)
	for run := range runs {
		all.Go(func() {
			session := h.Session("", logs[run].logger())
			defer session.Close()
			action := actionNamed(t, session, "example.io/behave")
			if _, err := execute(t.Context(), action, "pid"); err != nil {
				t.Error(err)
			}
			started <- struct{}{}
			for len(started) < runs { // both are attached to the process before the first line that counts
				runtime.Gosched()
			}
			for i := range itemsOfEach {
				item := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"run-%d-item-%d","namespace":"shop","annotations":{"do":"log in call"}}}`, run, i)
				if _, err := action.Execute(t.Context(), []byte(item), []byte(`{}`)); err != nil {
					t.Error(err)
				}
			}
			if _, err := execute(t.Context(), action, "log"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for run := range runs {
		log := logs[run].String()
		require.Equal(t, itemsOfEach, strings.Count(log, "called: "), log)
		require.Equal(t, itemsOfEach, strings.Count(log, "called again: "), log)
		require.Equal(t, 2*itemsOfEach, strings.Count(log, fmt.Sprintf("item=run-%d-item-", run)))
		require.NotContains(t, log, fmt.Sprintf("item=run-%d-item-", 1-run), "a line of the other run")
		require.Contains(t, log, "logSource=misbehave/action.go:")
		require.Contains(t, log, "plugin=example.io/behave")
		require.NotContains(t, log, hostapi.RunKey)
	}
}

// One binary has asynchronous actions and their adapters for Velero. This server uses it as what it is, once per kind;
// Velero, whose handshake and wire the test speaks, gets actions of version 2 that start the same operations.
func TestAcceptPlugins_AdapterForVelero(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := filepath.Join(dir, "mover")
	programs.Copy(t, "server/internal/host/pluginhost/testdata/mover", command)
	t.Run("in this server", func(t *testing.T) {
		t.Parallel()
		h := newTestHost(t, dir,
			func(c *Config) { c.Environment = append(c.Environment, hostapi.StateDirEnv+"="+t.TempDir()) })
		used := map[string]bool{}
		for _, entry := range h.Entries() {
			used[entry.Kind] = entry.Used
			require.Empty(t, entry.Quarantined)
			if kind, adapts := strings.CutSuffix(entry.Kind, "ItemActionV2"); adapts {
				require.Equal(t, "an adapter of the Async"+kind+"ItemAction of that name, for hosts that do not know that kind",
					entry.Note)
			}
		}
		require.Equal(t, map[string]bool{
			"AsyncBackupItemAction": true, "BackupItemActionV2": false, "AsyncRestoreItemAction": true,
			"RestoreItemActionV2": false,
		}, used)
		action := h.action(t, "example.io/mover")
		result, err := action.Execute(t.Context(), []byte(authoredClaim), backupJSON)
		require.NoError(t, err)
		requireCompletes(t, func() (framework.OperationProgress, error) {
			return action.Progress(t.Context(), result.OperationID, backupJSON)
		})
		require.Equal(t, []string{"shop/data"}, h.journalLines())
	})
	t.Run("in Velero", func(t *testing.T) {
		t.Parallel()
		journal := filepath.Join(t.TempDir(), "journal")
		environment := []string{hostapi.StateDirEnv + "=" + t.TempDir(), "CLEAT_TEST_JOURNAL=" + journal}
		requireAdapterInVelero(t, startAsVelero(t, command, environment...))
		moved, err := os.ReadFile(journal)
		require.NoError(t, err)
		require.Equal(t, "shop/data\nshop/data\n", string(moved), "once for the backup and once for the restore")
		// As after a restart of Velero: another process knows the operations of the first one.
		requireAdapterInVelero(t, startAsVelero(t, command, environment...))
		again, err := os.ReadFile(journal)
		require.NoError(t, err)
		require.Equal(t, string(moved), string(again), "an operation that exists is not started again")
	})
}

// requireAdapterInVelero calls the actions of the mover as Velero does.
func requireAdapterInVelero(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	const mover = "example.io/mover"
	ctx := t.Context()
	listed, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	require.NoError(t, err)
	var found []string
	for _, one := range listed.GetPlugins() {
		found = append(found, one.GetKind()+" "+one.GetName())
	}
	require.ElementsMatch(t, []string{"BackupItemActionV2 " + mover, "RestoreItemActionV2 " + mover}, found)

	backup := backupitemactionv2.NewBackupItemActionClient(conn)
	applies, err := backup.AppliesTo(ctx, &backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: mover})
	require.NoError(t, err)
	require.Equal(t, []string{"persistentvolumeclaims"}, applies.GetResourceSelector().GetIncludedResources())
	backedUp, err := backup.Execute(ctx, &backupitemactionv2.ExecuteRequest{Plugin: mover, Item: []byte(authoredClaim),
		Backup: backupJSON})
	require.NoError(t, err)
	require.JSONEq(t, authoredClaim, string(backedUp.GetItem()))
	require.NotEmpty(t, backedUp.GetOperationID())
	require.Len(t, backedUp.GetPostOperationItems(), 1)
	require.Equal(t, "data", backedUp.GetPostOperationItems()[0].GetName())
	again, err := backup.Execute(ctx, &backupitemactionv2.ExecuteRequest{Plugin: mover, Item: []byte(authoredClaim),
		Backup: backupJSON})
	require.NoError(t, err)
	require.Equal(t, backedUp.GetOperationID(), again.GetOperationID(), "the same item of the same backup")
	requireMoved(t, func() (*shared.OperationProgress, error) {
		reply, err := backup.Progress(ctx, &backupitemactionv2.BackupItemActionProgressRequest{Plugin: mover,
			OperationID: backedUp.GetOperationID(), Backup: backupJSON})
		return reply.GetProgress(), err
	})
	_, err = backup.Cancel(ctx, &backupitemactionv2.BackupItemActionCancelRequest{Plugin: mover,
		OperationID: backedUp.GetOperationID(), Backup: backupJSON})
	require.NoError(t, err, "Velero has no reply for an operation that cannot be cancelled")

	restore := restoreitemactionv2.NewRestoreItemActionClient(conn)
	restored, err := restore.Execute(ctx, &restoreitemactionv2.RestoreItemActionExecuteRequest{
		Plugin: mover, Item: []byte(authoredClaim), ItemFromBackup: []byte(authoredClaim), Restore: []byte(stockRestore),
	})
	require.NoError(t, err)
	require.JSONEq(t, authoredClaim, string(restored.GetItem()))
	requireMoved(t, func() (*shared.OperationProgress, error) {
		reply, err := restore.Progress(ctx, &restoreitemactionv2.RestoreItemActionProgressRequest{Plugin: mover,
			OperationID: restored.GetOperationID(), Restore: []byte(stockRestore)})
		return reply.GetProgress(), err
	})
	ready, err := restore.AreAdditionalItemsReady(ctx,
		&restoreitemactionv2.RestoreItemActionItemsReadyRequest{Plugin: mover, Restore: []byte(stockRestore)})
	require.NoError(t, err)
	require.True(t, ready.GetReady())
}

// requireCompletes waits until an operation is done.
func requireCompletes(t *testing.T, progress func() (framework.OperationProgress, error)) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := progress()
		return err == nil && now.Completed && now.Err == "" && now.NCompleted == 3
	}, longEnough, 50*time.Millisecond)
}

// requireMoved waits until an operation has moved its claim.
func requireMoved(t *testing.T, progress func() (*shared.OperationProgress, error)) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := progress()
		return err == nil && now.GetCompleted() && now.GetErr() == "" && now.GetNCompleted() == 3 &&
			now.GetOperationUnits() == "blocks"
	}, longEnough, aMoment)
}
