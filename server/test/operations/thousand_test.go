package operations_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_Thousand runs 1,000 operations of 20 backups and restores, while the server and the plugin are
// killed at random: each is begun once and ends once, and nothing stays open.
func TestAcceptOperations_Thousand(t *testing.T) {
	t.Parallel()
	const runs, items = 10, 50 // backups, and the same number of restores
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	w.SetPlugins("restart: {threshold: 1000}") // it is killed more often than a plugin in production
	args := slices.Concat(w.Args, []string{
		"--concurrent-backups", strconv.Itoa(runs), "--concurrent-restores", strconv.Itoa(runs), "--backup-attempts", "100",
		"--restore-attempts", "100",
	})
	server := s.Serve(args...)
	s.Available()
	server.AwaitLog("kind=AsyncRestoreItemAction plugin=example.io/worker")
	shops := make([]string, runs)
	for i := range shops {
		shops[i] = s.Workload(1)
		for n := range items {
			s.Item(shops[i], fmt.Sprintf("work-%02d", n), "keyed", "length", fmt.Sprintf("%dms", 500+60*n))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	serverKills, pluginKills, work := 0, 0, -1
	// until kills at random until done returns true, rarely enough that the test ends on a slow machine. A plugin has
	// done some work since its last death: a run fails if it dies in each of its starts.
	until := func(done func() bool) {
		most := serverKills + 12
		for !done() {
			time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond)
			switch {
			case serverKills == most:
			case random.IntN(3) == 0:
				server.Kill()
				server = s.Serve(args...)
				server.AwaitLog("kind=AsyncRestoreItemAction plugin=example.io/worker") // a plugin that dies earlier is quarantined
				serverKills++
			case w.Work() != work:
				work = w.Work()
				pluginKills += w.KillPlugin()
			}
		}
	}
	for i, shop := range shops {
		s.BeginBackupOf(fmt.Sprintf("b%d", i), shop)
	}
	until(func() bool {
		var list velerov1.BackupList
		require.NoError(t, s.Client.List(t.Context(), &list, client.InNamespace(s.Namespace)))
		for i := range list.Items {
			if !list.Items[i].Status.Phase.Terminal() {
				return false
			}
		}
		return true
	})
	for i, shop := range shops {
		b := s.AwaitBackup(fmt.Sprintf("b%d", i), velerov1.BackupPhaseCompleted)
		require.Equal(t, [2]int{items, items}, [2]int{b.Status.BackupItemOperationsAttempted,
			b.Status.BackupItemOperationsCompleted})
		s.RestoreTo(fmt.Sprintf("r%d", i), b.Name, shop, shop+"-copy")
	}
	until(func() bool {
		var list velerov1.RestoreList
		require.NoError(t, s.Client.List(t.Context(), &list, client.InNamespace(s.Namespace)))
		for i := range list.Items {
			if !list.Items[i].Status.Phase.Terminal() {
				return false
			}
		}
		return true
	})
	for i := range runs {
		r := s.AwaitRestore(fmt.Sprintf("r%d", i), velerov1.RestorePhaseCompleted)
		require.Equal(t, [2]int{items, items}, [2]int{r.Status.RestoreItemOperationsAttempted,
			r.Status.RestoreItemOperationsCompleted})
	}
	s.Eventually("nothing is open", func(ctx context.Context) (bool, error) { return len(s.Journals(ctx)) == 0, nil })
	notes := w.Notes()
	require.Len(t, notes, 2*2*runs*items, "begun and ended")
	for what, n := range notes {
		require.Equal(t, 1, n, what)
	}
	t.Logf("killed the server %d times and the plugin %d times", serverKills, pluginKills)
	require.Positive(t, serverKills*pluginKills)
}

// TestAcceptOperations_PluginReplaced replaces the file of a plugin while its operations are in progress: the new
// process is polled.
func TestAcceptOperations_PluginReplaced(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	s.Serve(w.Args...)
	s.Available()
	shop := s.BeginWork("b", "keyed", 0, "length", "held")
	s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	program := filepath.Join(w.Plugins, "worker")
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program+".new", append(content, "another version"...), 0o755)) //nolint:gosec // a program
	require.NoError(t, os.Rename(program+".new", program))
	s.Eventually("the process of the new file runs, and no other", func(context.Context) (bool, error) {
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
	w.Finish()
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	w.RequireOnce("backup", shop, "work")
}
