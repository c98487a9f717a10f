package operations_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// awaitReason waits for an event about an object with a reason.
func awaitReason(s *site.Site, name, reason string) {
	s.T.Helper()
	s.Eventually("there is an event "+reason, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reason
		}), err
	})
}

// TestAcceptOperations_Progress shows operations with every command that can, while the plugin works, sends invalid
// replies and does not exist, with and without a server that answers, and cancels them.
func TestAcceptOperations_Progress(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	w := s.Work()
	server := s.Serve(w.Args...)
	s.Available()
	require.Equal(t, "No backup or restore waits for operations.\n", s.Must("operations", "--timeout", "2m"))
	follower := s.Follow("operations", "--timeout", "2m")
	shop := s.Workload(1)
	s.Item(shop, "liar", "keyed", "as", "lies", "length", "10h")
	s.Item(shop, "long", "keyed", "length", "10h")
	s.Item(shop, "short", "keyed", "length", "1s")
	s.BeginBackupOf("nightly", shop)
	s.AwaitBackup("nightly", velerov1.BackupPhaseWaitingForPluginOperations)
	follower.Until("backup/nightly: example.io/worker for configmaps/" + shop +
		"/short: Completed, 1000 B of 1000 B, working")
	follower.Interrupt()

	shown := s.Must("operations", "--timeout", "2m", "--backup", "nightly")
	require.Regexp(t, `(?m)^backup/nightly +1 of 3 ended +.* \(sum\)$`, shown)
	require.Regexp(t, `(?m)^backup/nightly +InProgress +\d+.* B of 1000 B +\d+% +.* configmaps/`+shop+
		`/long +example.io/worker +working$`, shown)
	require.Regexp(t, `(?m)^backup/nightly +InProgress +[\d.]+ K?i?B of 10 B +(>999|\d+)% +.* configmaps/`+shop+
		`/liar +example.io/worker +working$`, shown)
	require.Regexp(t, `(?m)^backup/nightly +Completed +1000 B of 1000 B +100% `, shown)
	var document struct {
		Kind            string
		Open, Completed int
		Owners          []struct {
			Kind, Name string
			Operations []struct{ Plugin, Phase, Name string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must("operations", "--timeout", "2m", "-o", "json")), &document))
	require.Equal(t, []any{"Operations", 2, 1}, []any{document.Kind, document.Open, document.Completed})
	require.Len(t, document.Owners[0].Operations, 3)
	_, stderr, err := s.Run("operations", "--restore", "stranger")
	require.Error(t, err)
	require.Contains(t, stderr, `--restore: restores.velero.io "stranger" not found`)

	require.Contains(t, s.Must("backup", "describe", "nightly"),
		"Backup Item Operations:  1 of 3 completed successfully, 0 failed, 2 open (specify --details for more information)\n")
	described := s.Must("backup", "describe", "nightly", "--details", "--timeout", "2m")
	require.Regexp(t, `(?m)^  InProgress +.* configmaps/`+shop+`/long +example.io/worker +working$`, described)
	require.NotContains(t, described, "Could not be determined")

	// Without the plugin, the operations are polled repeatedly.
	require.NoError(t, os.Remove(filepath.Join(w.Plugins, "worker")))
	awaitReason(s, "nightly", "OperationTrouble")
	s.Eventually("the trouble is shown", func(context.Context) (bool, error) {
		return regexp.MustCompile(`/long +example.io/worker +the plugin does not answer: `).MatchString(
			s.Must("operations", "--timeout", "2m"),
		), nil
	})
	programs.Copy(t, "server/test/site/testdata/worker", filepath.Join(w.Plugins, "worker"))
	s.Eventually("the trouble is over", func(context.Context) (bool, error) {
		return regexp.MustCompile(`/long +example.io/worker +working`).MatchString(s.Must("operations", "--timeout", "2m")),
			nil
	})

	// A backup that overlaps it waits in the queue.
	s.BeginBackupOf("second", shop)
	s.AwaitPosition("second", 1)
	cancelled := s.Must("backup", "cancel", "second", "--wait")
	require.Equal(t, "Backup \"second\" is being cancelled: it does not start, and becomes Failed.\nBackup \"second\" "+
		"has ended: Failed.\n", cancelled)

	// A server without the report has stored them. Without any server, the Backup has their counts.
	server.Kill()
	server = s.Serve(append(w.Args, "--disable-controllers", "server-status-request")...)
	s.Available()
	stored := s.Must("operations", "--timeout", "20s")
	require.Contains(t, stored, "These numbers were stored some time ago, because the server does not report them: no "+
		"answer within 20s")
	require.Regexp(t, `(?m)^backup/nightly +InProgress +.* configmaps/`+shop+`/long +example.io/worker `, stored)
	server.Kill()
	require.Regexp(t, `(?m)^backup/nightly +1 of 3 ended +- .* \(sum\) +the server has made no URL of BackupItemOperations nightly within 100ms: .*; 2 without numbers$`, s.Must("operations", "--timeout", "100ms"))

	s.Serve(w.Args...)
	s.Eventually("the next server follows them", func(context.Context) (bool, error) {
		return regexp.MustCompile(`(?m)^backup/nightly +1 of 3 ended`).MatchString(s.Must("operations", "--timeout", "2m")),
			nil
	})
	require.Equal(t, 4, s.RunPage(t, "operations", "", ""))
	b := s.AwaitBackup("nightly", velerov1.BackupPhasePartiallyFailed)
	require.Equal(t, 2, b.Status.BackupItemOperationsFailed)
	_, stderr, err = s.Run("backup", "cancel", "second", "nightly", "stranger")
	require.Error(t, err)
	require.Contains(t, stderr, "backup second has ended (Failed), so there is nothing to cancel\n"+
		"backup nightly has ended (PartiallyFailed), so there is nothing to cancel\nbackups.velero.io \"stranger\" not found")
	require.Regexp(t, `(?m)^  Failed +.* configmaps/`+shop+`/long +example.io/worker +.*was cancelled`,
		s.Must("backup", "describe", "nightly", "--details", "--timeout", "2m"))
	require.Equal(t, "No backup or restore waits for operations.\n", s.Must("operations", "--timeout", "2m"))

	// Restores are shown and cancelled in the same way.
	s.RestoreTo("back", "nightly", shop, shop+"-copy")
	s.AwaitRestore("back", velerov1.RestorePhaseWaitingForPluginOperations)
	s.Eventually("it is shown", func(context.Context) (bool, error) {
		return strings.Contains(s.Must("operations", "--timeout", "2m", "--restore", "back"), "\nrestore/back "), nil
	})
	require.Regexp(t, `^Restore "back" is being cancelled: its open operations \(\d\) are cancelled, .*\nRestore "back" has ended: PartiallyFailed\.\n$`,
		s.Must("restore", "cancel", "back", "--wait"))
	described = s.Must("restore", "describe", "back", "--details", "--timeout", "2m")
	require.Regexp(t, `\nRestore Item Operations:  [01] of 3 completed successfully, [23] failed\n`, described)
	require.Regexp(t, `(?m)^  Failed +.* configmaps/`+shop+`-copy/long +example.io/worker +.*was cancelled`, described)
}
