//go:build linux

package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// TestAcceptPlugins_Supervision has real plugin processes misbehave and checks the errors and log lines. Meanwhile
// another caller uses another plugin without interruption. Afterwards both plugins work, in sessions from before and in
// new ones. TestAcceptBackup_PluginDies covers the ways to die, TestAcceptSecurity_Sessions the children that stay.
func TestAcceptPlugins_Supervision(t *testing.T) {
	t.Parallel()
	tests := map[string]fault{
		"it logs 1,000 lines a second": {
			config: func(c *Config) { c.Clock = clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)) }, // all in one second
			happens: func(t *testing.T, s *scene) string {
				_, err := s.call(t, "log 1000 lines")
				require.NoError(t, err)
				s.end()
				require.Equal(t, 1000, len(s.logged("[INFO]  line")), "that many are kept")
				return strings.Join(s.logged("are left out"), "\n")
			},
			want: "",
		},
		"it logs 3,000 lines a second": {
			config: func(c *Config) { c.Clock = clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)) }, // all in one second
			happens: func(t *testing.T, s *scene) string {
				_, err := s.call(t, "log 3000 lines")
				require.NoError(t, err)
				s.end()
				require.Equal(t, 1000, len(s.logged("[INFO]  line")))
				require.Equal(t, 2000.0, gathered(t, s.metrics)["log_lines_dropped_total "+s.dir+"/behave rate"])
				return strings.Join(s.logged("are left out"), "\n")
			},
			want: "[WARN]  lines of this plugin are left out, it writes more than plugins.limits.linesPerSecond: " +
				"cmd=/plugins/behave pluginName=behave leftOut=2000 linesPerSecond=1000",
		},
		"it makes noise on stdout after the handshake": {
			happens: func(t *testing.T, s *scene) string {
				_, err := s.call(t, "noise on stdout")
				require.NoError(t, err)
				require.Eventually(t, func() bool { return len(s.logged("noise")) > 0 }, longEnough, aMoment)
				return strings.Join(s.logged(""), "\n")
			},
			want: "[DEBUG] 1|2|tcp|127.0.0.1:1|grpc|: cmd=/plugins/behave pluginName=behave\n" +
				"[DEBUG] \x00\uFFFD: cmd=/plugins/behave pluginName=behave\n" +
				"[DEBUG] noise: cmd=/plugins/behave pluginName=behave",
		},
		"it writes lines of 64 KiB and of 10 MiB": {
			happens: func(t *testing.T, s *scene) string {
				_, err := s.call(t, "lines of 64 KiB and 10 MiB")
				require.NoError(t, err)
				s.end()
				require.Equal(t, 1.0, gathered(t, s.metrics)["log_lines_dropped_total "+s.dir+"/behave length"])
				return strings.ReplaceAll(strings.Join(s.logged(""), "\n"), strings.Repeat("l", 64<<10), "<64 KiB>")
			},
			want: "[DEBUG] <64 KiB>: cmd=/plugins/behave pluginName=behave\n" +
				"[DEBUG] after a line of 65536: cmd=/plugins/behave pluginName=behave\n" +
				"[DEBUG] <64 KiB>... (10420224 more bytes): cmd=/plugins/behave pluginName=behave\n" +
				"[DEBUG] after a line of 10485760: cmd=/plugins/behave pluginName=behave",
		},
		"it is stopped for longer than it may take": {
			config: func(c *Config) {
				c.probe, c.stop = time.Second, 100*time.Millisecond
			},
			happens: func(t *testing.T, s *scene) string {
				pid := processOf(t, s.action)
				stopProcess(t, pid)
				_, err := execute(calls.WithDeadline(t.Context(), 2*time.Second), s.action, "nothing")
				requireReaped(t, pid)
				return s.golden(err)
			},
			want: "BackupItemAction(example.io/behave): plugin example.io/behave (/plugins/behave) did not answer Execute " +
				"within 2s",
		},
		"it is stopped and goes on in time": {
			happens: func(t *testing.T, s *scene) string {
				pid := processOf(t, s.action)
				stopProcess(t, pid)
				replied := make(chan error)
				go func() {
					_, err := s.call(t, "pid")
					replied <- err
				}()
				require.Eventually(t, func() bool { return s.supervisor().Calls() > 0 }, longEnough, aMoment, "the call is there")
				require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
				err := <-replied
				require.Equal(t, pid, processOf(t, s.action), "the same process")
				return s.golden(err)
			},
			want: "",
		},
		"it takes more memory than it may": {
			config: func(c *Config) { c.Limits.Memory = 512 << 20 },
			happens: func(t *testing.T, s *scene) string {
				_, err := s.call(t, "eat memory")
				require.ErrorContains(t, err, "out of memory") // Go reports this in several ways
				return s.golden(err)
			},
			want: "BackupItemAction(example.io/behave): plugin example.io/behave (/plugins/behave) died during Execute: exit " +
				"status 2; " +
				"last on stderr: fatal error: ...",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
	t.Run("200 plugins are in one directory", testManyPlugins)
}

// fault describes one way in which a plugin misbehaves.
type fault struct {
	config  func(*Config)                   // may be nil
	happens func(*testing.T, *scene) string // returns what the operator reads
	want    string                          // golden; a prefix when it ends in "..."
}

// scene is the session in which a fault happens.
type scene struct {
	*testHost
	action backupitemaction.Action // of the first plugin; nil when it cannot be used
	end    func()                  // of the session
	log    *lines                  // the session's

	metrics *prometheus.Registry // the host's
}

func (f fault) run(t *testing.T) {
	dir := pluginDir(t, "behave", "zz/named-bystander")
	metrics := prometheus.NewRegistry()
	h := newTestHost(t, dir, func(c *Config) {
		c.Metrics = metrics
		if f.config != nil {
			f.config(c)
		}
	})
	bystander := h.action(t, "example.io/named-bystander")
	before := processOf(t, bystander)
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			if _, err := execute(t.Context(), bystander, "nothing"); err != nil {
				t.Errorf("somebody else's call to another plugin: %v", err)
				return
			}
			select {
			case <-over:
				return
			case <-pace.C:
			}
		}
	})
	s := &scene{testHost: h, log: &lines{}, metrics: metrics}
	session := h.Session("", s.log.logger())
	defer session.Close()
	s.action, s.end = actionNamed(t, session, "example.io/behave"), session.Close

	got := f.happens(t, s)
	close(over)
	others.Wait()
	requireGolden(t, f.want, strings.ReplaceAll(got, dir, "/plugins"))

	_, err := execute(t.Context(), s.action, "nothing")
	require.NoError(t, err, "the session goes on")
	_, err = execute(t.Context(), h.behave(t), "nothing")
	require.NoError(t, err, "and others can begin")
	require.Equal(t, before, processOf(t, h.action(t, "example.io/named-bystander")), "the other plugin had no part in it")
}

// call makes one call with an instruction to the plugin.
func (s *scene) call(t *testing.T, what string) (map[string]string, error) {
	return execute(t.Context(), s.action, what)
}

// logged returns the lines of the session's log that contain text.
func (s *scene) logged(text string) []string {
	var found []string
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// stopProcess stops every thread of a process.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		require.NoError(t, err)
		for _, thread := range threads {
			if stat, err := os.ReadFile(thread); err == nil && !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return true
	}, longEnough, aMoment)
}

// testManyPlugins starts, uses and stops 200 processes.
func testManyPlugins(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 200 {
		files = append(files, fmt.Sprintf("named-%03d", i))
	}
	h := newTestHost(t, pluginDir(t, files...), nil)
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	actions := All(session, kinds.BackupItemActions()...)
	require.Len(t, actions, len(files))
	var pids []int
	for i, action := range actions {
		require.Equal(t, "example.io/"+files[i], action.Name())
		pids = append(pids, processOf(t, action))
	}
	require.Empty(t, h.refused())
	require.Equal(t, len(files), h.journalCount("start"))
	h.Close()
	for _, pid := range pids {
		require.True(t, dead(pid))
	}
}
