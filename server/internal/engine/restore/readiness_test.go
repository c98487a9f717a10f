package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// waitsHost runs the plugin testdata/waits in a process.
type waitsHost struct {
	t       *testing.T
	dir     string // for the files of the plugin
	actions []restoreitemaction.Action
}

func newWaitsHost(t *testing.T) *waitsHost {
	t.Helper()
	binaries, dir := t.TempDir(), t.TempDir()
	programs.Copy(t, "server/internal/engine/restore/testdata/waits", filepath.Join(binaries, "waits"))
	host, err := pluginhost.New(t.Context(), pluginhost.Config{
		Dir: binaries, Log: hclog.NewNullLogger(), Rescan: -1, Environment: []string{"CLEAT_TEST_DIR=" + dir},
		Restart: process.Restart{Backoff: time.Millisecond, Threshold: 100},
	})
	require.NoError(t, err)
	t.Cleanup(host.Close)
	session := host.Session("", testLog(t))
	t.Cleanup(session.Close)
	actions := pluginhost.All(session, kinds.RestoreItemActions()...)
	require.Len(t, actions, 2)
	return &waitsHost{t: t, dir: dir, actions: actions}
}

// asked returns the questions to the plugin during a restore: process ID and names of items.
func (h *waitsHost) asked(restore string) [][2]string {
	text, _ := os.ReadFile(filepath.Join(h.dir, "asked-"+restore)) // it does not exist before the first question
	var asked [][2]string
	for line := range strings.Lines(string(text)) {
		pid, names, complete := strings.Cut(line, " ")
		if complete && strings.HasSuffix(names, "\n") {
			asked = append(asked, [2]string{pid, strings.TrimSpace(names)})
		}
	}
	return asked
}

// await returns when the questions to the plugin during a restore satisfy a condition, or the test ends.
func (h *waitsHost) await(restore string, satisfies func(asked [][2]string) bool) {
	for h.t.Context().Err() == nil && !satisfies(h.asked(restore)) {
		time.Sleep(10 * time.Millisecond)
	}
}

// times returns a condition for await: n questions.
func times(n int) func(asked [][2]string) bool {
	return func(asked [][2]string) bool { return len(asked) >= n }
}

// ready makes the plugin report the items of a restore as ready.
func (h *waitsHost) ready(restore string) {
	_ = os.WriteFile(filepath.Join(h.dir, "ready-"+restore), nil, 0o600) // the test fails without it
}

// waiting returns a secret, which an action of that version handles; secrets come before config maps.
func waiting(ns, name, version, needs, timeout string) thing {
	return in("secrets", "v1", "Secret", ns, name, obj{"metadata": obj{
		"labels": obj{"version": version}, "annotations": obj{"needs": needs, "timeout": timeout},
	}})
}

// TestAcceptRestore_Readiness restores items whose actions, in the process of a plugin, wait for additional items.
func TestAcceptRestore_Readiness(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	host := newWaitsHost(t)
	for _, tt := range []struct {
		name    string
		restore string // see testdata/waits
		version string
		needs   string
		server  time.Duration // timeout of the server; 0 is one that is not reached
		plugin  string        // timeout of the plugin
		after   int           // number of questions after which the items are ready; 0 is never
		asked   string        // names in each question
		times   int           // number of questions; 0 is several
		errs    string
	}{
		{name: "ready at once", restore: "at-once-1", needs: "a,b", asked: "a,b", times: 1},
		{name: "ready later", restore: "later", needs: "a,b", after: 3, asked: "a,b"},
		{name: "ready later than the server's limit, within the plugin's", restore: "longer", needs: "a",
			server: time.Nanosecond, plugin: "1h", after: 3, asked: "a"},
		{name: "never, the server's limit", restore: "never-1", needs: "a", server: 5 * time.Second, asked: "a",
			errs: "were not ready after 5s; it is restored nevertheless"},
		{name: "never, the plugin's limit", restore: "never-2", needs: "a", plugin: "4s", asked: "a",
			errs: "were not ready after 4s; it is restored nevertheless"},
		{name: "an error", restore: "error", needs: "a", asked: "a", times: 1, errs: "no idea; it is restored nevertheless"},
		{name: "without items that failed, or are not in the backup", restore: "at-once-2", needs: "missing,a,broken,b",
			asked: "a,b", errs: "broken"},
		{name: "version 1 is never asked", restore: "old", version: "1", needs: "a,b", server: time.Nanosecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := unique(t, "ready")
			options := testOptions()
			options.ResourceTimeout = time.Hour
			if tt.server != 0 {
				options.ResourceTimeout = tt.server
			}
			if tt.version == "" {
				tt.version = "2"
			}
			if tt.after > 0 {
				go func() {
					host.await(tt.restore, times(tt.after))
					host.ready(tt.restore)
				}()
			}
			things := []thing{namespaceThing(ns, nil), configMap(ns, "a", nil), configMap(ns, "b", nil),
				waiting(ns, "s", tt.version, tt.needs, tt.plugin)}
			if strings.Contains(tt.needs, "broken") {
				broken := configMap(ns, "broken", nil)
				broken.body = configMap(ns, "other", nil).body
				things = append(things, broken)
			}
			result, err := c.restore(pack(t, things...), newRestore(tt.restore, nil), options, host.actions...)
			require.NoError(t, err)

			require.Equal(t, []string{ns + "/s(created)"}, entries(result, "v1/Secret"), "it is restored in any case: %+v",
				result.Results)
			asked := host.asked(tt.restore)
			for _, question := range asked {
				require.Equal(t, tt.asked, question[1])
			}
			switch {
			case tt.times > 0:
				require.Len(t, asked, tt.times)
			case tt.version == "1":
				require.Empty(t, asked)
			default:
				require.GreaterOrEqual(t, len(asked), max(tt.after, 1))
			}
			if tt.errs == "" {
				require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
				return
			}
			require.Equal(t, 1, result.Results.Errors.Count(), "%+v", result.Results.Errors)
			require.Contains(t, fmt.Sprint(result.Results.Errors), tt.errs)
		})
	}
	t.Run("hundreds wait at once", func(t *testing.T) {
		t.Parallel()
		hundredsWait(t, c, host)
	})
	t.Run("cancelled", func(t *testing.T) { t.Parallel(); cancelledWait(t, c, host) })
	t.Run("the plugin is killed", func(t *testing.T) { t.Parallel(); killedWait(t, c, newWaitsHost(t)) })
}

// hundredsWait restores 300 items with two workers. The plugin reports the additional items of each as ready once it
// has been asked about all.
func hundredsWait(t *testing.T, c *cluster, host *waitsHost) {
	const n = 300
	ns := unique(t, "many")
	things := []thing{namespaceThing(ns, nil)}
	for i := range n {
		things = append(things, configMap(ns, fmt.Sprintf("c%d", i), nil),
			waiting(ns, fmt.Sprintf("s%d", i), "2", fmt.Sprintf("c%d", i), ""))
	}
	options := testOptions()
	options.Workers = 2
	options.PollInterval = 200 * time.Millisecond
	options.ResourceTimeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // reached if items wait for the slots of others
	defer cancel()
	result, err := Run(ctx, Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(t, c.config),
		Options: options}, Request{
		Restore: newRestore("all-"+strconv.Itoa(n), nil), Archive: pack(t, things...), Actions: host.actions, Log: testLog(t),
	})
	require.NoError(t, err)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Len(t, created(result, ""), len(things))
}

func cancelledWait(t *testing.T, c *cluster, host *waitsHost) {
	ns := unique(t, "cancel")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("somebody deleted it")
	go func() {
		host.await("cancelled", times(2))
		cancel(stopped)
	}()
	options := testOptions()
	options.ResourceTimeout = time.Hour
	result, err := Run(ctx, Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(t, c.config),
		Options: options}, Request{
		Restore: newRestore("cancelled", nil), Archive: pack(t, configMap(ns, "a", nil), waiting(ns, "s", "2", "a", "")),
		Actions: host.actions, Log: testLog(t),
	})
	require.ErrorIs(t, err, stopped)
	require.Equal(t, []string{ns + "/a(created)"}, entries(result, "v1/ConfigMap"))
	require.Nil(t, c.live(waiting(ns, "s", "2", "a", "")), "nothing is written after the end")
}

func killedWait(t *testing.T, c *cluster, host *waitsHost) {
	ns := unique(t, "killed")
	go func() {
		host.await("killed", times(2))
		pid, _ := strconv.Atoi(host.asked("killed")[0][0])
		_ = syscall.Kill(pid, syscall.SIGKILL)
		host.await("killed", func(asked [][2]string) bool { return len(pidsOf(asked)) > 1 })
		host.ready("killed")
	}()
	options := testOptions()
	options.ResourceTimeout = 5 * time.Minute
	result, err := c.restore(pack(t, configMap(ns, "a", nil), waiting(ns, "s", "2", "a", "")), newRestore("killed", nil),
		options, host.actions...)
	require.NoError(t, err)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Equal(t, []string{ns + "/s(created)"}, entries(result, "v1/Secret"))
	require.Len(t, pidsOf(host.asked("killed")), 2, "another process answered")
}

func pidsOf(asked [][2]string) map[string]bool {
	pids := map[string]bool{}
	for _, question := range asked {
		pids[question[0]] = true
	}
	return pids
}
