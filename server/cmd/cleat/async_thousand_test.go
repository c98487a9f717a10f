package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptOperations_Thousand runs 1,000 operations of 20 backups and restores, while the server and the plugin are
// killed at random: each is begun once and ends once, and nothing is left open.
func TestAcceptOperations_Thousand(t *testing.T) {
	t.Parallel()
	const runs, items = 10, 50 // of backups, and as many restores
	s := newSite(t, "cleat.dev/file")
	w := s.work()
	w.setPlugins("restart: {threshold: 1000}") // it is killed more often than a plugin in service
	args := slices.Concat(w.args, []string{
		"--concurrent-backups", strconv.Itoa(runs), "--concurrent-restores", strconv.Itoa(runs), "--backup-attempts", "100",
		"--restore-attempts", "100",
	})
	server := s.serve(args...)
	s.available()
	server.awaitLog("kind=AsyncRestoreItemAction plugin=example.io/worker")
	shops := make([]string, runs)
	for i := range shops {
		shops[i] = s.workload(1)
		for n := range items {
			s.item(shops[i], fmt.Sprintf("work-%02d", n), "keyed", "length", fmt.Sprintf("%dms", 500+60*n))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	serverKills, pluginKills, work := 0, 0, -1
	// until kills at random until all is done, at most so often that the test comes to an end on a slow machine. A plugin
	// has done some work since its last death: a run fails if it dies in each of its starts.
	until := func(done func() bool) {
		most := serverKills + 12
		for !done() {
			time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond)
			switch {
			case serverKills == most:
			case random.IntN(3) == 0:
				server.kill()
				server = s.serve(args...)
				server.awaitLog("kind=AsyncRestoreItemAction plugin=example.io/worker") // a plugin that dies before is quarantined
				serverKills++
			case w.work() != work:
				work = w.work()
				pluginKills += w.killPlugin()
			}
		}
	}
	for i, shop := range shops {
		s.beginBackupOf(fmt.Sprintf("b%d", i), shop)
	}
	until(func() bool {
		var list velerov1.BackupList
		require.NoError(t, s.client.List(t.Context(), &list, client.InNamespace(s.namespace)))
		for i := range list.Items {
			if !list.Items[i].Status.Phase.Terminal() {
				return false
			}
		}
		return true
	})
	for i, shop := range shops {
		b := s.awaitBackup(fmt.Sprintf("b%d", i), velerov1.BackupPhaseCompleted)
		require.Equal(t, [2]int{items, items}, [2]int{b.Status.BackupItemOperationsAttempted,
			b.Status.BackupItemOperationsCompleted})
		s.restoreTo(fmt.Sprintf("r%d", i), b.Name, shop, shop+"-copy")
	}
	until(func() bool {
		var list velerov1.RestoreList
		require.NoError(t, s.client.List(t.Context(), &list, client.InNamespace(s.namespace)))
		for i := range list.Items {
			if !list.Items[i].Status.Phase.Terminal() {
				return false
			}
		}
		return true
	})
	for i := range runs {
		r := s.awaitRestore(fmt.Sprintf("r%d", i), velerov1.RestorePhaseCompleted)
		require.Equal(t, [2]int{items, items}, [2]int{r.Status.RestoreItemOperationsAttempted,
			r.Status.RestoreItemOperationsCompleted})
	}
	s.eventually("nothing is open", func(ctx context.Context) (bool, error) { return len(s.journals(ctx)) == 0, nil })
	notes := w.notes()
	require.Len(t, notes, 2*2*runs*items, "begun and ended")
	for what, n := range notes {
		require.Equal(t, 1, n, what)
	}
	t.Logf("killed the server %d times and the plugin %d times", serverKills, pluginKills)
	require.Positive(t, serverKills*pluginKills)
}

// TestAcceptOperations_PluginReplaced replaces the file of a plugin while its operations go on: the new process is
// asked about them.
func TestAcceptOperations_PluginReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	w := s.work()
	s.serve(w.args...)
	s.available()
	shop := s.beginWork("b", "keyed", 0, "length", "held")
	s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	program := filepath.Join(w.plugins, "worker")
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program+".new", append(content, "another version"...), 0o755)) //nolint:gosec // a program
	require.NoError(t, os.Rename(program+".new", program))
	s.eventually("the process of the new file runs, and no other", func(context.Context) (bool, error) {
		links, err := filepath.Glob("/proc/[0-9]*/exe")
		now, before := 0, 0
		for _, link := range links {
			switch target, _ := os.Readlink(link); target {
			case program:
				now++
			case program + " (deleted)":
				before++
			}
		}
		return now == 1 && before == 0, err
	})
	w.finish()
	b := s.awaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	w.requireOnce("backup", shop, "work")
}
