package pluginhost

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// TestAcceptBackup_PluginDies kills real plugin processes at every point of their life. It checks the error for the
// caller, and that the plugin works again afterwards.
func TestAcceptBackup_PluginDies(t *testing.T) {
	t.Parallel()
	t.Run("in Execute", testDiesInExecute)
	t.Run("in Init", testDiesInInit)
	t.Run("between calls", testDiesBetweenCalls)
	t.Run("in a loop", testDiesInALoop)
	t.Run("in a stream", testDiesInAStream)
	t.Run("while others call", testDiesWhileOthersCall)
}

func testDiesInExecute(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do     string
		status string
		want   string // a prefix when it ends in "..."
	}{
		"by exit": {
			"exit", "exit status 3",
			`BackupItemAction(example.io/behave): plugin example.io/behave (/plugins/behave) died during Execute: exit status 3; ` +
				`last on stderr: [ERROR] disk on fire item=settings plugin=example.io/behave`,
		},
		"by SIGKILL": {
			"killed", "signal: killed",
			`BackupItemAction(example.io/behave): plugin example.io/behave (/plugins/behave) died during Execute: signal: killed; ` +
				`it wrote nothing to stderr`,
		},
		"by a panic that nobody recovers": {
			"panic elsewhere", "exit status 2",
			`BackupItemAction(example.io/behave): plugin example.io/behave (/plugins/behave) died during Execute: exit status 2; ` +
				`last on stderr: panic: boom | goroutine ...`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, "behave"), nil)
			action := h.behave(t)

			_, err := execute(t.Context(), action, test.do)
			requireGolden(t, test.want, h.golden(err))
			var died *calls.DiedError
			require.ErrorAs(t, err, &died)
			require.Equal(t, "example.io/behave", died.Plugin)
			require.Equal(t, "Execute", died.During)
			require.Equal(t, test.status, died.ExitStatus)

			_, err = execute(t.Context(), action, "nothing")
			require.NoError(t, err, "the next call has a new process")
		})
	}
}

func testDiesInInit(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	_, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "b", "do": "exit"})
	require.Equal(t, `ObjectStore(example.io/store): plugin example.io/store (/plugins/behave) died during Init: exit status 5; `+
		`last on stderr: cannot reach the tape robot`, h.golden(err))
	var died *calls.DiedError
	require.ErrorAs(t, err, &died)
	require.Equal(t, []string{"cannot reach the tape robot"}, died.Stderr)

	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "b"})
	require.NoError(t, err, "with a configuration that works")
	require.NoError(t, store.PutObject(t.Context(), "b", "k", strings.NewReader("content")))
}

func testDiesBetweenCalls(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	first := processOf(t, action)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	requireReaped(t, first)
	second := processOf(t, action)
	require.NotEqual(t, first, second)
	require.Eventually(t, func() bool {
		return strings.Contains(h.log.String(), "died between calls: signal: killed")
	}, longEnough, aMoment, "it is in the server's log")

	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "vault"})
	require.NoError(t, err)
	before := storeProcess(t, store)
	require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
	requireReaped(t, before)
	require.NotEqual(t, before, storeProcess(t, store))
	require.Equal(t, 2, h.journalCount("Init bucket=vault"), "Init is repeated with the configuration of the location")
}

func testDiesInALoop(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.Clock = clock
		c.Restart = process.Restart{Backoff: time.Second, Threshold: 4, CoolDown: time.Minute,
			Jitter: func() float64 { return 0 }}
	})
	action := h.behave(t)
	for range 4 {
		_, err := execute(t.Context(), action, "exit")
		var open *calls.OutOfServiceError
		require.False(t, errors.As(err, &open), "%v", err)
		require.ErrorAs(t, err, new(*calls.DiedError))
		clock.Step(4 * time.Second) // past the back-off
	}

	_, err := execute(t.Context(), action, "nothing")
	requireGolden(t, `BackupItemAction(example.io/behave): plugin process /plugins/behave is out of service until 2023-11-14T22:14:32Z `+
		`after 4 failures in a row, the last: plugin example.io/behave (/plugins/behave) died during Execute: exit status 3; `+
		`last on stderr: [ERROR] disk on fire item=settings plugin=example.io/behave`, h.golden(err))
	starts := len(h.journalLines())
	_, err = execute(t.Context(), action, "nothing")
	require.ErrorAs(t, err, new(*calls.OutOfServiceError))
	require.Len(t, h.journalLines(), starts, "nothing is started while the circuit is open")

	clock.Step(time.Minute)
	_, err = execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError), "one trial after the cool-down")
	_, err = execute(t.Context(), action, "nothing")
	require.ErrorContains(t, err, "out of service until "+clock.Now().Add(2*time.Minute).UTC().Format(time.RFC3339)+
		" after 5 failures", "the cool-down doubles")

	clock.Step(2 * time.Minute)
	_, err = execute(t.Context(), action, "nothing")
	require.NoError(t, err, "a call that works closes the circuit")
	_, err = execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	_, err = execute(t.Context(), action, "nothing")
	require.NoError(t, err, "and the next death is the first one again, restarted at once")
}

func testDiesInAStream(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "b"})
	require.NoError(t, err)

	err = store.PutObject(t.Context(), "b", "exit", strings.NewReader("content"))
	require.Equal(t, `ObjectStore(example.io/store): plugin example.io/store (/plugins/behave) died during PutObject: exit status 6; `+
		`last on stderr: tape torn`, h.golden(err))
	err = store.PutObject(t.Context(), "b", "die half way", strings.NewReader(strings.Repeat("c", 10<<20)))
	require.ErrorAs(t, err, new(*calls.DiedError))

	reader, err := store.GetObject(t.Context(), "b", "die half way")
	require.NoError(t, err)
	_, err = readAll(reader)
	require.ErrorAs(t, err, new(*calls.DiedError), "a download cut short is an error")
	require.NoError(t, reader.Close())

	require.NoError(t, store.PutObject(t.Context(), "b", "k", strings.NewReader("content")))
}

func testDiesWhileOthersCall(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	outcome := make(chan error, 8)
	for range cap(outcome) {
		go func() {
			_, err := execute(t.Context(), action, "hang")
			outcome <- err
		}()
	}
	require.Eventually(t, func() bool {
		return h.journalCount("hanging") == cap(outcome)
	}, longEnough, aMoment)
	pid := processOf(t, action)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	for range cap(outcome) {
		require.ErrorAs(t, <-outcome, new(*calls.DiedError))
	}
	require.NotEqual(t, pid, processOf(t, action), "one new process for all")
	require.Equal(t, 2, h.journalCount("start"))
}

// requireGolden compares two texts, up to "..." if want ends in that.
func requireGolden(t *testing.T, want, got string) {
	t.Helper()
	if prefix, open := strings.CutSuffix(want, "..."); open {
		require.Equal(t, prefix, got[:min(len(prefix), len(got))], got)
		return
	}
	require.Equal(t, want, got)
}

// processOf returns the process id of the plugin.
func processOf(t *testing.T, action backupitemaction.Action) int {
	t.Helper()
	answer, err := execute(t.Context(), action, "pid")
	require.NoError(t, err)
	pid, err := strconv.Atoi(answer["pid"])
	require.NoError(t, err)
	return pid
}

// requireReaped waits until a process is reaped.
func requireReaped(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); os.IsNotExist(err) {
			return true
		}
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}, longEnough, aMoment)
}
