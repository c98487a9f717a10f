package pluginhost

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// onlyStock returns a directory with the plugin of a year.
func onlyStock(t *testing.T, year string) string {
	t.Helper()
	dir := t.TempDir()
	_, err := stockplugins.Build(year, dir)
	require.NoError(t, err)
	return dir
}

// running returns the ids of the processes that can be called.
func (h *testHost) running() (pids []int) {
	for _, p := range h.pool.Running() {
		pids = append(pids, p.PID)
	}
	return pids
}

func (h *testHost) awaitRunning(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(h.running()) == want }, longEnough, aMoment, "%d processes", want)
}

func TestProcessWithoutPluginInfoServesOneRun(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, onlyStock(t, "2024"), nil)
	h.awaitRunning(t, 0) // the one that has listed the plugins serves no run
	run := func(name string) *Session {
		session := h.Session(name, hclog.NewNullLogger())
		action := actionNamed(t, session, "velero.io/stock-2024")
		for range 2 {
			_, err := action.Execute(t.Context(), stockItem("Pod", "web"), backupJSON)
			require.NoError(t, err)
		}
		return session
	}
	first := run("a")
	ofFirst := h.running()
	require.Len(t, ofFirst, 1)
	second := run("b")
	require.Len(t, h.running(), 2)
	require.Contains(t, h.running(), ofFirst[0])

	// A poll of the operations of a run has a process apart from it.
	action, err := Named(h.Host, kinds.BackupItemActions()[0], "velero.io/stock-2024")
	require.NoError(t, err)
	_, err = action.Progress(ForOperations(t.Context(), "a"), "copy-1", backupJSON)
	require.NoError(t, err)
	_, err = action.Progress(ForOperations(t.Context(), "a"), "copy-1", backupJSON)
	require.NoError(t, err)
	h.awaitRunning(t, 2)
	require.Contains(t, h.running(), ofFirst[0])

	first.Close()
	h.awaitRunning(t, 1)
	require.NotContains(t, h.running(), ofFirst[0])
	second.Close()
	h.awaitRunning(t, 0)
}

func TestStoreWithoutPluginInfoServesOneRun(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, onlyStock(t, "2020"), nil)
	open := func(ctx context.Context) {
		store, err := h.ObjectStore(ctx, "default", "velero.io/stock-2020", map[string]string{"bucket": "b"})
		require.NoError(t, err)
		_, err = store.ListCommonPrefixes(ctx, "b", "", "/")
		require.NoError(t, err)
	}
	h.awaitRunning(t, 0)
	open(ForRun(t.Context(), "a")) // a restore opens its location before its session
	ofRun := h.running()
	require.Len(t, ofRun, 1)
	open(ForRun(t.Context(), "a"))
	require.Equal(t, ofRun, h.running(), "the run has its process")
	session := h.Session("a", hclog.NewNullLogger())
	open(ForRun(t.Context(), "b"))
	open(t.Context())
	open(t.Context())
	h.awaitRunning(t, 1)
	require.Equal(t, ofRun, h.running(), "the processes of the others have ended")
	session.Close()
	h.awaitRunning(t, 0)
}

func TestSharedProcessIsReplacedWhenWhatItReadHasChanged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cloud")
	require.NoError(t, os.WriteFile(file, []byte("key=1"), 0o600))
	renewed := make(chan struct{}, 10)
	waits := make(chan struct{})
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.Environment = append(c.Environment, "CLOUD_FILE="+file)
		c.Renewed = func() { renewed <- struct{}{} }
		c.Logs = func(string) hclog.Logger {
			select {
			case <-waits:
				return nil
			default:
				return hclog.NewNullLogger()
			}
		}
	})
	session := h.Session("a", hclog.NewNullLogger())
	defer session.Close()
	action := actionNamed(t, session, "example.io/behave")
	_, err := execute(t.Context(), action, "")
	require.NoError(t, err)
	before := h.supervisor().State().PID
	store, err := h.ObjectStore(t.Context(), "one", "example.io/store", map[string]string{"bucket": "b"})
	require.NoError(t, err)
	ofStore := storeProcess(t, store)
	waiting, err := Named(h.Host, kinds.BackupItemActions()[0], "example.io/behave")
	require.NoError(t, err)
	_, err = execute(ForOperations(t.Context(), "b"), waiting, "") // b waits for work of the process
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(file, []byte("key=2, which is another"), 0o600))
	<-renewed
	_, err = execute(t.Context(), action, "")
	require.NoError(t, err)
	require.NotEqual(t, before, h.supervisor().State().PID)
	require.NotEqual(t, ofStore, storeProcess(t, store), "who has opened the store uses the new process")
	require.Contains(t, h.running(), before, "a run waits for its work")
	close(waits)
	require.Eventually(t, func() bool { return len(h.running()) == 2 }, longEnough, aMoment)
	require.NotContains(t, h.running(), before)
}

// TestProgramIsReplacedWhole has a plugin of three actions, two of which the built-ins have.
func TestProgramIsReplacedWhole(t *testing.T) {
	t.Parallel()
	builtIns := []framework.Registration{
		biav1.Register("velero.io/stock-2022-backup",
			func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) { return nil, nil }),
		riav1.Register("velero.io/stock-2022-restore",
			func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) { return nil, nil }),
	}
	reasons := func(of ...framework.Registration) map[string]string {
		h := newTestHost(t, onlyStock(t, "2022"), func(c *Config) { c.BuiltIns = of })
		found := map[string]string{}
		for _, e := range h.Entries() {
			if !e.BuiltIn {
				found[e.Name] = e.Quarantined
			}
		}
		return found
	}
	replaced := reasons(builtIns...)
	require.Contains(t, replaced["velero.io/stock-2022-backup"], "is offered twice")
	require.Contains(t, replaced["velero.io/stock-2022-delete"],
		"built-in plugins replace the whole program, since they have 2 of its 3; remove ")
	require.Empty(t, reasons(builtIns[0])["velero.io/stock-2022-delete"], "one of three is the same by chance")
}
