package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	asyncbackupitemaction "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/forvelero"
	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Two runs call one process at the same time. What it logs for a call is in the log of the run that made the call, and what it
// logs for itself is in both.
func TestAcceptAuthor_Logs(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	const runs, itemsOfEach = 2, 40
	var logs [runs]lines
	var all sync.WaitGroup
	started := make(chan struct{}, runs)
	for run := range runs {
		all.Go(func() {
			session := h.Session(logs[run].logger())
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

// An asynchronous action that is registered for Velero too is used once, as what it is.
func TestAcceptAuthor_Adapter(t *testing.T) {
	t.Parallel()
	const name = "example.io/mover"
	construct := func(context.Context, *framework.Setup) (asyncbackupitemaction.AsyncBackupItemAction, error) {
		return nil, errors.New("never called")
	}
	h := newTestHost(t, "", func(c *Config) {
		c.BuiltIns = []framework.Registration{
			asyncbackupitemaction.Register(name, construct), forvelero.AsyncBackupItemAction(name, construct),
		}
	})
	used := map[string]bool{}
	for _, entry := range h.Entries() {
		used[entry.Kind] = entry.Used
		require.Empty(t, entry.Quarantined)
		if entry.Kind == "BackupItemActionV2" {
			require.Equal(t, "an adapter of the AsyncBackupItemAction of that name, for hosts that do not know that kind", entry.Note)
		}
	}
	require.Equal(t, map[string]bool{"AsyncBackupItemAction": true, "BackupItemActionV2": false}, used)
}
