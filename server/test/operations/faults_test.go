package operations_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_WrongReplies has a plugin with invalid replies.
func TestAcceptOperations_WrongReplies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		as       string
		worker   string
		phase    velerov1.BackupPhase
		counts   [3]int   // attempted, completed, failed
		messages []string // parts of the errors in the results
	}{
		{as: "no id", worker: "keyed", phase: "Completed"},
		{as: "lies", worker: "keyed", phase: "Completed", counts: [3]int{1, 1, 0}},
		{as: "lies of the negative", worker: "keyed", phase: "Completed", counts: [3]int{1, 1, 0}},
		{as: "lies of the negative", worker: "keyless", phase: "Completed", counts: [3]int{1, 1, 0}},
		{as: "goes back", worker: "keyed", phase: "Completed", counts: [3]int{1, 1, 0}},
		{as: "dies in Start", worker: "keyed", phase: "Completed", counts: [3]int{1, 1, 0}},
		{as: "refuses", worker: "keyed", phase: "PartiallyFailed", messages: []string{"refused as requested"}},
		{as: "refuses", worker: "keyless", phase: "PartiallyFailed", messages: []string{"refused as requested"}},
		{as: "long id", worker: "keyed", phase: "PartiallyFailed",
			messages: []string{"operation id has 2048 bytes, want at most 1024"}},
		{as: "long id", worker: "keyless", phase: "PartiallyFailed",
			messages: []string{"operation id has 2048 bytes, want at most 1024"}},
		{as: "control id", worker: "keyed", phase: "PartiallyFailed", messages: []string{"has control characters"}},
		{as: "hangs in Start", worker: "keyed", phase: "PartiallyFailed",
			messages: []string{"did not answer Start within 3s"}},
		{as: "fails", worker: "keyed", phase: "PartiallyFailed", counts: [3]int{1, 0, 1},
			messages: []string{"failed as requested", "example.io/worker"}},
		{as: "fails", worker: "keyless", phase: "PartiallyFailed", counts: [3]int{1, 0, 1},
			messages: []string{"failed as requested", "example.io/keyless"}},
		{as: "forgets", worker: "keyed", phase: "PartiallyFailed", counts: [3]int{1, 0, 1},
			messages: []string{"is not known to the plugin any more"}},
	} {
		t.Run(test.as+" "+test.worker, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/file")
			w := s.Work()
			if test.as == "hangs in Start" { // the others have enough time for a busy machine
				w.SetPlugins("deadlines: {kinds: {AsyncBackupItemAction: 3s}}")
			}
			s.Serve(w.Args...)
			s.Available()
			s.BeginWork("b", test.worker, 0, "as", test.as)
			b := s.AwaitEnd("b")
			require.Equal(t, test.phase, b.Status.Phase, b.Status.FailureReason)
			require.Equal(t, test.counts, [3]int{b.Status.BackupItemOperationsAttempted, b.Status.BackupItemOperationsCompleted,
				b.Status.BackupItemOperationsFailed})
			require.Equal(t, len(test.messages) > 0, b.Status.Errors == 1, "%d errors", b.Status.Errors)
			for _, part := range test.messages {
				require.Contains(t, s.Messages("b"), part)
			}
			if test.as != "hangs in Start" { // the plugin is asked again for an hour
				s.AwaitNoJournals()
			}
		})
	}
}

// TestAcceptOperations_SameID has two items of a backup whose replies name the same operation. The second reply is an
// error.
func TestAcceptOperations_SameID(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(1)
	s.Item(shop, "first", "keyed", "as", "same id")
	s.Item(shop, "second", "keyed", "as", "same id")
	s.BeginBackupOf("b", shop)
	b := s.AwaitBackup("b", velerov1.BackupPhasePartiallyFailed)
	require.Equal(t, 1, b.Status.BackupItemOperationsAttempted)
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	require.Contains(t, s.Messages("b"), "the-same")
	require.Equal(t, 0, b.Status.BackupItemOperationsFailed)
}

// TestAcceptOperations_Timeouts has operations that exceed each of their limits. They are cancelled once, and the
// error names the action and the item, the progress of the operation, and the time since its last change.
func TestAcceptOperations_Timeouts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		as       string
		timeout  time.Duration // of the spec
		args     []string
		settings string
		messages []string
		cancels  int
	}{
		"of the spec": {as: "", timeout: 15 * time.Second, messages: []string{"15s", "of 1000 bytes"}, cancels: 1},
		"of the server": {as: "", args: []string{"--default-item-operation-timeout", "15s"},
			messages: []string{"15s", "of 1000 bytes"}, cancels: 1},
		"ceiling of the plugin": {as: "", timeout: time.Hour,
			settings: "operations: {plugins: {example.io/worker: {timeout: 3s}}}", messages: []string{"3s"}, cancels: 1},
		"no progress": {as: "silent", settings: "operations: {stallTimeout: 15s}",
			messages: []string{"15s", "had done 7 of 1000 bytes"}, cancels: 1},
		"ignores its cancellation": {as: "ignores Cancel", timeout: 2 * time.Second,
			settings: "operations: {cancelGrace: 2s}", messages: []string{"did not end within 2s", "may go on"}, cancels: 1},
		"cannot be cancelled": {as: "cannot be cancelled", timeout: 2 * time.Second,
			messages: []string{"cannot stop it", "may go on"}, cancels: 1},
		"hangs in Cancel": {as: "hangs in Cancel", timeout: 2 * time.Second,
			settings: "operations: {cancelGrace: 3s}", messages: []string{"within 3s"}, cancels: -1},
		"hangs in Progress": {as: "hangs in Progress", timeout: 4 * time.Second,
			settings: "operations: {cancelGrace: 3s}", messages: []string{"no progress"}, cancels: 1},
		"dies in Progress": {as: "dies in Progress", timeout: 4 * time.Second,
			settings: "operations: {cancelGrace: 3s}", messages: []string{"timed out after 4s"}, cancels: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/file")
			w := s.Work(test.settings)
			s.Serve(append(w.Args, test.args...)...)
			s.Available()
			shop := s.BeginWork("b", "keyed", test.timeout, "as", test.as, "length", "1h")
			b := s.AwaitBackup("b", velerov1.BackupPhasePartiallyFailed)
			require.Equal(t, [3]int{1, 0, 1}, [3]int{b.Status.BackupItemOperationsAttempted,
				b.Status.BackupItemOperationsCompleted, b.Status.BackupItemOperationsFailed})
			all := s.Operations(b)
			require.Len(t, all, 1)
			require.Equal(t, operation.Failed, all[0].Phase)
			for _, part := range test.messages {
				require.Contains(t, all[0].Error, part)
			}
			failed := site.Gzipped[results.Results](s, "backups/b/b-results.gz").Errors.Namespaces[shop]
			require.Len(t, failed, 1)
			require.Contains(t, failed[0], " resource: /configmaps name: /work message: /operation "+all[0].ID+
				" of example.io/worker failed error: /"+all[0].Error)
			if test.cancels >= 0 {
				require.Equal(t, test.cancels, w.Notes()["cancel backup/"+shop+"/work"])
			}
			s.RequireWhole(b)
			s.AwaitNoJournals()
		})
	}
	t.Run("of the spec of a restore", func(t *testing.T) {
		t.Parallel()
		s := site.New(t, "cleat.dev/file")
		w := s.Work()
		s.Serve(w.Args...)
		s.Available()
		shop := s.BeginWork("b", "keyed", 0, "in", "restore", "length", "1h")
		s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r"},
			Spec: velerov1.RestoreSpec{
				BackupName: "b", NamespaceMapping: map[string]string{shop: shop + "-copy"}, ItemOperationTimeout: metav1.Duration{
					Duration: 3 * time.Second,
				},
			},
		}))
		r := s.AwaitRestore("r", velerov1.RestorePhasePartiallyFailed)
		require.Equal(t, [2]int{1, 1}, [2]int{r.Status.RestoreItemOperationsAttempted, r.Status.RestoreItemOperationsFailed})
		errs := site.Gzipped[map[string]json.RawMessage](s, "restores/r/restore-r-results.gz")["errors"]
		require.Contains(t, string(errs), "timed out after 3s")
		require.Equal(t, 1, w.Notes()["cancel restore/"+shop+"/work"])
	})
}

// TestAcceptOperations_AbsentPlugin backs up, restores and deletes while a plugin file is broken. Nothing fails because
// of it, but each run warns.
func TestAcceptOperations_AbsentPlugin(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	broken := filepath.Join(w.Plugins, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho secret >&2\nexit 3\n"), 0o755))
	server := s.Serve(w.Args...)
	s.Available()
	shop := s.BeginWork("b", "keyed", 0)
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	const absent = "broken are not in force, because it is quarantined: "
	require.Equal(t, 1, b.Status.Warnings)
	require.Contains(t, s.Must("backup", "logs", "b"), absent)
	results := func(path string) string { return string(site.Gzipped[map[string]json.RawMessage](s, path)["warnings"]) }
	require.Contains(t, results("backups/b/b-results.gz"), absent)
	require.NotContains(t, results("backups/b/b-results.gz"), "secret")
	s.RestoreTo("r", "b", shop, shop+"-copy")
	r := s.AwaitRestore("r", velerov1.RestorePhaseCompleted)
	require.GreaterOrEqual(t, r.Status.Warnings, 1)
	require.Contains(t, results("restores/r/restore-r-results.gz"), absent)
	server.AwaitLine(absent, "restore="+s.Namespace+"/r")

	require.NoError(t, os.Remove(broken))
	s.Eventually("the file is gone from the list of plugins", func(context.Context) (bool, error) {
		out, _, err := s.Run("plugin", "get")
		return !strings.Contains(out, "broken"), err
	})
	s.BeginBackupOf("whole", shop)
	require.Zero(t, s.AwaitBackup("whole", velerov1.BackupPhaseCompleted).Status.Warnings)
}

// TestAcceptOperations_ClockJumps sets the clock between two servers, in the form of recorded times for the second
// one. No operation is ended for this reason, and none is forgotten.
func TestAcceptOperations_ClockJumps(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"an hour forward": time.Hour, "an hour back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/file")
			w := s.Work("operations: {stallTimeout: 30m}")
			server := s.Serve(w.Args...)
			s.Available()
			shop := s.BeginWork("b", "keyed", 2*time.Hour, "length", "held")
			s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
			server.Kill()
			const path = "backups/b/b-itemoperations.json.gz"
			file := site.Gzipped[[]map[string]map[string]any](s, path)
			require.Len(t, file, 1)
			created, err := time.Parse(time.RFC3339, file[0]["status"]["created"].(string))
			require.NoError(t, err)
			file[0]["status"]["created"] = created.Add(-jump)
			changed, err := json.Marshal(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(s.BucketDir, path), site.Zipped(t, string(changed)), 0o600))
			s.Serve(w.Args...).AwaitLog("this server leads")
			w.Finish()
			b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
			require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
			w.RequireOnce("backup", shop, "work")
			require.Zero(t, w.Notes()["cancel backup/"+shop+"/work"])
			s.AwaitNoJournals()
		})
	}
}

func TestAcceptOperations_TimeoutIsExplained(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	s.Serve(w.Args...)
	s.Available()
	s.BeginWork("b", "keyed", 15*time.Second, "length", "1h")
	b := s.AwaitBackup("b", velerov1.BackupPhasePartiallyFailed)
	operations := s.Operations(b)
	require.Len(t, operations, 1)
	require.Regexp(t, `^timed out after 15s; it had done \d+ of 1000 bytes, `, operations[0].Error)
	require.NotContains(t, operations[0].Error, operations[0].ID)
	require.Equal(t, 1, strings.Count(s.Messages("b"), operations[0].ID), "the result of the backup names it once")
	require.Regexp(t, `timed out after 15s; it had done \d+ of 1000 bytes, and nothing new for \d+s`,
		s.Must("backup", "describe", "b", "--details"))
}
