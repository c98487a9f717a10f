package pluginhost

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

func TestPluginEnvironment(t *testing.T) {
	t.Parallel()
	for _, rule := range []hostenv.Rule{"", hostenv.Complete, hostenv.Strict} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) { c.EnvironmentRule = rule })
			store, err := h.ObjectStore(t.Context(), "default", "example.io/store", nil)
			require.NoError(t, err)
			strict := rule == hostenv.Strict
			for _, pid := range []int{processOf(t, h.behave(t)), storeProcess(t, store)} {
				environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				require.NoError(t, err)
				passed := strings.Split(string(environment), "\x00")
				require.Contains(t, passed, "PATH="+os.Getenv("PATH"))
				require.Contains(t, passed, "CLEAT_TEST_JOURNAL="+h.journal, "from the configuration")
				require.Equal(t, !strict, slices.Contains(passed, secretVariable+"=hunter2"), passed)
				require.NotContains(t, passed, foreignHandshake+"=false")
				require.Contains(t, passed, "VELERO_PLUGIN=hello")
			}
			withheld := h.Environment().Withheld
			require.Contains(t, withheld, foreignHandshake)
			require.Equal(t, strict, slices.Contains(withheld, secretVariable))
			require.Equal(t, 1, strings.Count(h.log.String(), "are withheld from plugins"), "named once")
			require.Contains(t, h.log.String(), foreignHandshake)
			require.NotContains(t, h.log.String(), "hunter2")
		})
	}
}

// TestServerReapsOrphansAsFirstProcess makes the test process a subreaper, like the first process of a container.
func TestServerReapsOrphansAsFirstProcess(t *testing.T) {
	t.Parallel()
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	action := h.behave(t)
	annotations, err := execute(t.Context(), action, "fork away")
	require.NoError(t, err)
	pid := processOf(t, action)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	requireReaped(t, pid)
	require.Eventually(t, func() bool {
		_, err := os.Stat("/proc/" + annotations["child"])
		return os.IsNotExist(err)
	}, longEnough, aMoment, "not even a zombie is left")
}

func TestPluginsDieWhenServerIsKilled(t *testing.T) {
	t.Parallel()
	server := exec.Command(os.Args[0])
	sockets, err := os.MkdirTemp(testBinaries, "") // the killed server does not remove it
	require.NoError(t, err)
	server.Env = append(os.Environ(), "CLEAT_TEST_SERVE="+pluginDir(t, "behave"), "TMPDIR="+sockets)
	output, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	plugin, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.False(t, dead(plugin))

	require.NoError(t, server.Process.Kill())
	require.Error(t, server.Wait())
	require.Eventually(t, func() bool { return dead(plugin) }, longEnough, aMoment)
}
