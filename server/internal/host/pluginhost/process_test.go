package pluginhost

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

func TestOneProcessServesAllSessions(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	require.Equal(t, processOf(t, h.behave(t)), processOf(t, h.behave(t)))
	require.Equal(t, 1, h.journalCount("start"), "started once: for the list and for the calls")
}

func TestAppliesToIsCalledOncePerProcess(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	for range 3 {
		selector, err := action.AppliesTo(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"configmaps"}, selector.IncludedResources)
	}
	var sessions sync.WaitGroup
	for range 8 {
		other := h.behave(t)
		sessions.Go(func() {
			if _, err := other.AppliesTo(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	sessions.Wait()
	require.Equal(t, 1, h.journalCount("AppliesTo"), "other sessions have the same answer")

	_, err := execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	_, err = action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, h.journalCount("AppliesTo"), "a session keeps the answer that it had")
	_, err = h.behave(t).AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, h.journalCount("AppliesTo"), "another process may answer something else")
}

func TestRepeatableCallsAreRepeatedOnceWhenPluginDies(t *testing.T) {
	t.Parallel()
	marker := t.TempDir() + "/die"
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.Environment = append(c.Environment, "CLEAT_TEST_DIE_ONCE="+marker)
	})
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	_, err := h.behave(t).AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, h.journalCount("AppliesTo"))

	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	_, err = store.ObjectExists(t.Context(), "b", "die once")
	require.NoError(t, err)
	require.Equal(t, 2, h.journalCount("ObjectExists die once"))

	async := backupitemaction.AsyncV1().Bind(h.supervisor().Conn("example.io/async", nil), "example.io/async")
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	result, err := async.Execute(t.Context(), itemDoing("nothing"), backupJSON)
	require.NoError(t, err)
	require.Equal(t, "operation-1", result.OperationID)
	require.Equal(t, 2, h.journalCount("Start velero/b/ConfigMap/shop/settings"), "with the same key")

	_, err = store.ObjectExists(t.Context(), "b", "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	require.Equal(t, 2, h.journalCount("ObjectExists exit"), "once more, not for ever")
	require.ErrorAs(t, store.DeleteObject(t.Context(), "b", "exit"), new(*calls.DiedError))
}

func TestErrorsOfPluginAreReturnedUnchanged(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "garbage"), nil)
	action := h.behave(t)
	pid := processOf(t, action)
	for what, want := range map[string]string{
		"fail":        "BackupItemAction(example.io/behave): no such volume",
		"panic":       "BackupItemAction(example.io/behave): plugin panicked: handler boom",
		"unavailable": "BackupItemAction(example.io/behave): storage array is rebooting",
	} {
		_, err := execute(t.Context(), action, what)
		require.EqualError(t, err, want)
	}
	_, err := execute(t.Context(), action, "rename")
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	require.Equal(t, pid, processOf(t, action), "none of that is a reason to restart")

	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	garbage := actionNamed(t, session, "example.io/garbage")
	_, err = execute(t.Context(), garbage, "nothing")
	require.ErrorContains(t, err, "BackupItemAction(example.io/garbage): ")
	require.ErrorContains(t, err, "unmarshal")
	_, err = garbage.AppliesTo(t.Context())
	require.Error(t, err)
}

func TestMessagesOfMoreThan4MiBPassBothWays(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	annotations, err := execute(t.Context(), action, "grow")
	require.NoError(t, err)
	require.Len(t, annotations["padding"], 5<<20)

	item := strings.Replace(string(itemDoing("nothing")), `"metadata"`, `"data":{"k":"`+strings.Repeat("d", 5<<20)+
		`"},"metadata"`, 1)
	result, err := action.Execute(t.Context(), []byte(item), backupJSON)
	require.NoError(t, err)
	require.JSONEq(t, item, string(result.Item))
}

func TestCancellationReachesPlugin(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	pid := processOf(t, action)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := execute(ctx, action, "wait")
		ended <- err
	}()
	h.requireInJournal(t, "waiting")
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorAs(t, err, new(*calls.DiedError))
	h.requireInJournal(t, "cancelled")
	require.Equal(t, pid, processOf(t, action))
}

func TestHungPluginIsReplaced(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"hang", "freeze"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
				c.probe, c.stop = time.Second, 100*time.Millisecond
			})
			action := h.behave(t)
			pid := processOf(t, action)
			_, err := execute(calls.WithDeadline(t.Context(), time.Second), action, what)
			require.Equal(t, "BackupItemAction(example.io/behave): plugin example.io/behave (/plugins/behave) did not answer "+
				"Execute within 1s", h.golden(err))
			require.ErrorAs(t, err, new(*calls.OverdueError))
			require.NotEqual(t, pid, processOf(t, action), "the next call has another process")
			requireReaped(t, pid)
		})
	}
}

func TestDeadlineOfKindReplacesDeadlineOfClass(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.stop = 100 * time.Millisecond
		c.Deadlines.Kinds = map[string]time.Duration{"BackupItemAction": time.Second, "ObjectStore": 2 * time.Second}
	})
	_, err := execute(t.Context(), h.behave(t), "hang")
	require.EqualError(t, err, "BackupItemAction(example.io/behave): plugin example.io/behave ("+h.dir+
		"/behave) did not answer Execute within 1s")
	store, err := h.ObjectStore(calls.WithDeadline(t.Context(), longEnough), "default", "example.io/store", nil)
	require.NoError(t, err)
	_, err = store.ObjectExists(t.Context(), "b", "hang")
	require.ErrorContains(t, err, "did not answer ObjectExists within 2s")
	err = store.PutObject(t.Context(), "b", "hang", strings.NewReader(strings.Repeat("c", 1<<20)))
	require.ErrorContains(t, err, "did not answer PutObject within 2s", "between the messages of a stream")
}

func TestHungCallDoesNotEndOtherCalls(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.probe = longEnough
	})
	action := h.behave(t)
	pid := processOf(t, action)
	long, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { // a long call of another caller
		_, err := execute(long, action, "wait")
		ended <- err
	}()
	h.requireInJournal(t, "waiting")
	_, err := execute(calls.WithDeadline(t.Context(), time.Second), action, "hang")
	require.ErrorAs(t, err, new(*calls.OverdueError))
	require.NotEqual(t, pid, processOf(t, action), "new calls get a new process")
	require.NoError(t, syscall.Kill(pid, 0), "the old one lives for as long as somebody uses it")
	end()
	require.ErrorIs(t, <-ended, context.Canceled)
	requireReaped(t, pid)
}

func TestStreamLimitCountsOnlyTimeOfPlugin(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.stop = 100 * time.Millisecond
	})
	impatient := calls.WithDeadline(t.Context(), time.Second)
	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "b"})
	require.NoError(t, err)
	pid := storeProcess(t, store)
	_, err = func() (int64, error) {
		reader, err := store.GetObject(impatient, "b", "hang")
		if err != nil {
			return 0, err
		}
		defer func() { _ = reader.Close() }()
		return readAll(reader)
	}()
	require.Equal(t, "ObjectStore(example.io/store): plugin example.io/store (/plugins/behave) did not answer GetObject "+
		"within 1s", h.golden(err))
	requireReaped(t, pid)

	err = store.PutObject(impatient, "b", "hang", strings.NewReader(strings.Repeat("c", 1<<20)))
	require.ErrorAs(t, err, new(*calls.OverdueError))

	slow := &slowReader{t: t, pauses: 1, pause: 21 * time.Second}
	require.NoError(t, store.PutObject(calls.WithDeadline(t.Context(), 20*time.Second), "b", "k", slow),
		"the time that the host takes does not count")
}

// slowReader is a source that takes longer than the limit for the plugin.
type slowReader struct {
	t      *testing.T
	pauses int
	pause  time.Duration
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.pauses == 0 {
		return 0, io.EOF
	}
	r.pauses--
	select {
	case <-time.After(r.pause):
	case <-r.t.Context().Done():
	}
	return copy(p, "content"), nil
}

// dead reports whether a process has ended; its new parent may not have reaped it yet.
func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestCloseLeavesNoProcess(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	pid := processOf(t, action)
	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", nil)
	require.NoError(t, err)
	storePid := storeProcess(t, store)
	inFlight := make(chan error)
	go func() {
		_, err := execute(t.Context(), action, "hang")
		inFlight <- err
	}()
	h.requireInJournal(t, "hanging")
	h.Close()
	require.True(t, dead(pid))
	require.True(t, dead(storePid))
	require.ErrorContains(t, <-inFlight, "stopped by the server")
	_, err = execute(t.Context(), action, "nothing")
	require.ErrorContains(t, err, "the plugin host is closed")
}

func TestIdleProcessIsStoppedAndStartedAgain(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) { c.Clock, c.IdleAfter = clock, time.Minute })
	session := h.Session("", hclog.NewNullLogger())
	action := actionNamed(t, session, "example.io/behave")
	first := processOf(t, action)
	clock.Step(time.Hour)
	require.Equal(t, first, processOf(t, action), "a session keeps its processes")
	session.Close()
	clock.Step(59 * time.Second)
	require.False(t, dead(first))
	clock.Step(2 * time.Second)
	requireReaped(t, first)
	require.NotEqual(t, first, processOf(t, h.behave(t)))
	require.NotContains(t, h.log.String(), "died", "that is not a failure")
}

func TestProcessRestoresOneItemAtATime(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	restore := []byte(`{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"r","namespace":"velero"}}`)
	var calls sync.WaitGroup
	for range 2 { // two sessions share the process
		session := h.Session("", hclog.NewNullLogger())
		defer session.Close()
		actions := All(session, kinds.RestoreItemActions()...)
		require.Len(t, actions, 1)
		for range 8 {
			calls.Go(func() {
				_, err := actions[0].Execute(t.Context(),
					restoreitemaction.Input{Item: itemDoing(""), ItemFromBackup: itemDoing(""), Restore: restore})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	calls.Wait()
}

func TestPluginLinesGoToLogsOfItsSessions(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	var own, idle lines
	session := h.Session("", own.logger())
	other := h.Session("", idle.logger())
	_, err := execute(t.Context(), actionNamed(t, session, "example.io/behave"), "log")
	require.NoError(t, err)
	session.Close()
	other.Close()
	for _, line := range []string{
		`[INFO]  looking at item: cmd=` + h.dir + `/behave pluginName=behave`,
		`item=settings`, `size=12`, `plugin=example.io/behave`,
		"[DEBUG] a line that is not JSON",
		`[DEBUG] {"@message": 7, "@level": ["odd"]}`,
	} {
		require.Contains(t, own.String(), line)
	}
	require.NotContains(t, h.log.String(), "looking at item", "a session's log reaches the server's by itself")
	require.NotContains(t, own.String(), "not at this level")
	require.Empty(t, idle.String(), "a session that has not called gets nothing")

	before := own.String()
	_, err = execute(t.Context(), h.behave(t), "log")
	require.NoError(t, err)
	require.Equal(t, before, own.String(), "nothing after Close")
}

func TestOutputNeverBlocksPlugin(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"flood", "long line", "print"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, "behave"), nil)
			var log lines
			session := h.Session("", log.logger())
			defer session.Close()
			action := actionNamed(t, session, "example.io/behave")
			var calls sync.WaitGroup
			for range 2 {
				calls.Go(func() {
					_, err := execute(t.Context(), action, what)
					if err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			session.Close()
			if what == "long line" {
				require.Contains(t, log.String(), "lll... (139264 more bytes)")
				require.Contains(t, log.String(), "after the long line")
			}
		})
	}
}
