package main_test

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
)

// awaitReason waits for an event about an object with a reason.
func (s *site) awaitReason(name, reason string) {
	s.t.Helper()
	s.eventually("there is an event "+reason, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.client.List(ctx, &list, client.InNamespace(s.namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name &&
				e.Reason == reason
		}), err
	})
}

// TestAcceptOperations_Progress looks at operations with every command that shows them, while the plugin works, lies
// and is gone, with and without a server that answers, and cancels them.
func TestAcceptOperations_Progress(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	w := s.work()
	server := s.serve(w.args...)
	s.available()
	require.Equal(t, "No backup or restore waits for operations.\n", s.must("operations", "--timeout", "2m"))
	follower := s.follow("operations", "--timeout", "2m")
	shop := s.workload(1)
	s.item(shop, "liar", "keyed", "as", "lies", "length", "10h")
	s.item(shop, "long", "keyed", "length", "10h")
	s.item(shop, "short", "keyed", "length", "1s")
	s.beginBackupOf("nightly", shop)
	s.awaitBackup("nightly", velerov1.BackupPhaseWaitingForPluginOperations)
	follower.until("backup/nightly: example.io/worker for configmaps/" + shop +
		"/short: Completed, 1000 B of 1000 B, working")
	follower.interrupt()

	shown := s.must("operations", "--timeout", "2m", "--backup", "nightly")
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
	require.NoError(t, json.Unmarshal([]byte(s.must("operations", "--timeout", "2m", "-o", "json")), &document))
	require.Equal(t, []any{"Operations", 2, 1}, []any{document.Kind, document.Open, document.Completed})
	require.Len(t, document.Owners[0].Operations, 3)
	_, stderr, err := s.run("operations", "--restore", "stranger")
	require.Error(t, err)
	require.Contains(t, stderr, `--restore: restores.velero.io "stranger" not found`)

	require.Contains(t, s.must("backup", "describe", "nightly"),
		"Backup Item Operations:  1 of 3 completed successfully, 0 failed, 2 open (specify --details for more information)\n")
	described := s.must("backup", "describe", "nightly", "--details", "--timeout", "2m")
	require.Regexp(t, `(?m)^  InProgress +.* configmaps/`+shop+`/long +example.io/worker +working$`, described)
	require.NotContains(t, described, "Could not be determined")

	// Without the plugin, the operations are asked for again and again.
	require.NoError(t, os.Remove(filepath.Join(w.plugins, "worker")))
	s.awaitReason("nightly", "OperationTrouble")
	s.eventually("the trouble is shown", func(context.Context) (bool, error) {
		return regexp.MustCompile(`/long +example.io/worker +the plugin does not answer: `).MatchString(
			s.must("operations", "--timeout", "2m"),
		), nil
	})
	programs.Copy(t, "server/cmd/cleat/testdata/worker", filepath.Join(w.plugins, "worker"))
	s.eventually("the trouble is over", func(context.Context) (bool, error) {
		return regexp.MustCompile(`/long +example.io/worker +working`).MatchString(s.must("operations", "--timeout", "2m")),
			nil
	})

	// A backup that overlaps it waits in the queue.
	s.beginBackupOf("second", shop)
	s.awaitPosition("second", 1)
	cancelled := s.must("backup", "cancel", "second", "--wait")
	require.Equal(t, "Backup \"second\" is being cancelled: it does not start, and becomes Failed.\nBackup \"second\" "+
		"has ended: Failed.\n", cancelled)

	// A server that does not report them has stored them. Without any, the Backup counts them.
	server.kill()
	server = s.serve(append(w.args, "--disable-controllers", "server-status-request")...)
	s.available()
	stored := s.must("operations", "--timeout", "20s")
	require.Contains(t, stored, "These numbers were stored some time ago, because the server does not report them: no "+
		"answer within 20s")
	require.Regexp(t, `(?m)^backup/nightly +InProgress +.* configmaps/`+shop+`/long +example.io/worker `, stored)
	server.kill()
	require.Regexp(t, `(?m)^backup/nightly +1 of 3 ended +- .* \(sum\) +the server has made no URL of BackupItemOperations nightly within 100ms: .*; 2 without numbers$`, s.must("operations", "--timeout", "100ms"))

	s.serve(w.args...)
	s.eventually("the next server follows them", func(context.Context) (bool, error) {
		return regexp.MustCompile(`(?m)^backup/nightly +1 of 3 ended`).MatchString(s.must("operations", "--timeout", "2m")),
			nil
	})
	require.Equal(t, 4, s.runReadme(t, "### Operations of plugins\n", ""))
	b := s.awaitBackup("nightly", velerov1.BackupPhasePartiallyFailed)
	require.Equal(t, 2, b.Status.BackupItemOperationsFailed)
	_, stderr, err = s.run("backup", "cancel", "second", "nightly", "stranger")
	require.Error(t, err)
	require.Contains(t, stderr, "backup second has ended (Failed), so there is nothing to cancel\n"+
		"backup nightly has ended (PartiallyFailed), so there is nothing to cancel\nbackups.velero.io \"stranger\" not found")
	require.Regexp(t, `(?m)^  Failed +.* configmaps/`+shop+`/long +example.io/worker +.*was cancelled`,
		s.must("backup", "describe", "nightly", "--details", "--timeout", "2m"))
	require.Equal(t, "No backup or restore waits for operations.\n", s.must("operations", "--timeout", "2m"))

	// Restores are shown and cancelled alike.
	s.restoreTo("back", "nightly", shop, shop+"-copy")
	s.awaitRestore("back", velerov1.RestorePhaseWaitingForPluginOperations)
	s.eventually("it is shown", func(context.Context) (bool, error) {
		return strings.Contains(s.must("operations", "--timeout", "2m", "--restore", "back"), "\nrestore/back "), nil
	})
	require.Regexp(t, `^Restore "back" is being cancelled: its open operations \(\d\) are cancelled, .*\nRestore "back" has ended: PartiallyFailed\.\n$`,
		s.must("restore", "cancel", "back", "--wait"))
	described = s.must("restore", "describe", "back", "--details", "--timeout", "2m")
	require.Regexp(t, `\nRestore Item Operations:  [01] of 3 completed successfully, [23] failed\n`, described)
	require.Regexp(t, `(?m)^  Failed +.* configmaps/`+shop+`-copy/long +example.io/worker +.*was cancelled`, described)
}
