//go:build linux

package pluginhost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// Users of the test, none of which exists.
const (
	unprivileged = 12345
	stranger     = 12346
)

// TestAcceptSecurity_Owners runs a server as root and as another user, with a plugin that a third user could replace.
// The plugin leaves a mark if it runs, and runs only where root and the server's user own everything on the way to it,
// with a lock as well.
func TestAcceptSecurity_Owners(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users")
	}
	const needs = "; whatever the server runs must belong to root or to the user of the server"
	tests := map[string]struct {
		prepare func(t *testing.T, p placed)
		want    string // in the reason; empty when it runs
	}{
		"all of it belongs to root":      {func(*testing.T, placed) {}, ""},
		"the file belongs to the server": {func(t *testing.T, p placed) { give(t, p.file, p.server) }, ""},
		"the directories belong to the server": {func(t *testing.T, p placed) {
			give(t, p.dir, p.server)
			give(t, p.above, p.server)
		}, ""},
		"above it is a directory like /tmp": {func(t *testing.T, p placed) { mode(t, p.above, 0o777|os.ModeSticky) }, ""},
		"the file belongs to another user": {func(t *testing.T, p placed) { give(t, p.file, stranger) },
			"the file PLUGINS/plugin belongs to user 12346" + needs},
		"the directory belongs to another user": {func(t *testing.T, p placed) { give(t, p.dir, stranger) },
			"the directory PLUGINS belongs to user 12346" + needs},
		"a directory above is of another user": {func(t *testing.T, p placed) { give(t, p.above, stranger) },
			"the directory ABOVE belongs to user 12346" + needs},
		"anyone can write to a directory above": {func(t *testing.T, p placed) { mode(t, p.above, 0o777) },
			"others than its owner can change the directory ABOVE, its mode is drwxrwxrwx"},
		"above it is the /tmp of another user": {func(t *testing.T, p placed) {
			mode(t, p.above, 0o777|os.ModeSticky)
			give(t, p.above, stranger)
		},
			"the directory ABOVE belongs to user 12346" + needs},
		"another user's file, in a /tmp above it": {func(t *testing.T, p placed) {
			mode(t, p.above, 0o777|os.ModeSticky)
			give(t, p.file, stranger)
		},
			"the file PLUGINS/plugin belongs to user 12346" + needs},
		"another user's link leads to it": {func(t *testing.T, p placed) {
			mode(t, p.above, 0o777|os.ModeSticky)
			require.NoError(t, os.Rename(p.dir, p.base+"/real"))
			require.NoError(t, os.Symlink(p.base+"/real", p.dir))
			give(t, p.dir, stranger)
		}, "the link PLUGINS belongs to user 12346" + needs},
		"a link leads to a directory of another user": {func(t *testing.T, p placed) {
			require.NoError(t, os.Mkdir(p.base+"/theirs", 0o755))
			require.NoError(t, os.Rename(p.file, p.base+"/theirs/plugin"))
			require.NoError(t, os.Symlink("../../theirs/plugin", p.file))
			give(t, p.base+"/theirs", stranger)
		}, "the directory BASE/theirs belongs to user 12346" + needs},
		"its interpreter belongs to another user": {func(t *testing.T, p placed) {
			sh, err := os.ReadFile("/bin/sh")
			require.NoError(t, err)
			writeExecutable(t, p.base+"/sh", string(sh))
			give(t, p.base+"/sh", stranger)
			script, err := os.ReadFile(p.file)
			require.NoError(t, err)
			writeExecutable(t, p.file, strings.Replace(string(script), "/bin/sh", p.base+"/sh", 1))
		}, "the file BASE/sh belongs to user 12346" + needs},
		"env finds an interpreter of another user": {func(t *testing.T, p placed) {
			require.NoError(t, os.Mkdir(p.base+"/bin", 0o755))
			require.NoError(t, os.Symlink("/bin/sh", p.base+"/bin/special"))
			give(t, p.base+"/bin", stranger)
			script, err := os.ReadFile(p.file)
			require.NoError(t, err)
			writeExecutable(t, p.file, strings.Replace(string(script), "/bin/sh", "/usr/bin/env special", 1))
		}, "the directory BASE/bin belongs to user 12346" + needs},
	}
	for name, test := range tests {
		for _, server := range []int{0, unprivileged} {
			for _, locked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, server of user %d, locked %v", name, server, locked), func(t *testing.T) {
					t.Parallel()
					p := place(t, server)
					test.prepare(t, p)
					reason := p.serve(t, locked)
					if test.want == "" {
						require.Contains(t, reason, "died during start", "it is no plugin")
						require.FileExists(t, p.journal, "it runs")
						return
					}
					require.NoFileExists(t, p.journal, "it must not run")
					require.Contains(t, reason, "plugin PLUGINS/plugin is not started: ")
					require.Contains(t, reason, test.want)
				})
			}
		}
	}
}

// placed is a plugin in its place.
type placed struct {
	base, above, dir, file, journal string // dir is the plugin directory, in above, which is in base
	server                          int    // user of the server
}

func place(t *testing.T, server int) placed {
	t.Helper()
	base, err := os.MkdirTemp("", "owners")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	p := placed{base: base, above: base + "/above", dir: base + "/above/plugins", file: base + "/above/plugins/plugin",
		server: server, journal: base + "/journal/marks"}
	for _, dir := range []string{p.dir, p.base + "/journal"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for _, dir := range []string{p.base, p.above, p.dir} {
		mode(t, dir, 0o755)
	}
	mode(t, p.base+"/journal", 0o777)
	leavesMark(t, p.file)
	mode(t, p.file, 0o755)
	return p
}

// serve runs a server as its user, and returns why it does not use the plugin.
func (p placed) serve(t *testing.T, locked bool) string {
	t.Helper()
	server := exec.Command("/proc/self/exe")
	server.Env = append(os.Environ(), "CLEAT_TEST_REASON="+p.dir, "CLEAT_TEST_JOURNAL="+p.journal,
		fmt.Sprintf("CLEAT_TEST_LOCKED=%v", locked),
		"PATH="+p.base+"/bin:"+os.Getenv("PATH"))
	server.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.server),
		Gid: uint32(p.server)}}
	output, err := server.CombinedOutput()
	require.NoError(t, err, string(output))
	return strings.NewReplacer(p.dir, "PLUGINS", p.above, "ABOVE", p.base, "BASE").Replace(string(output))
}

// printReason runs a host and prints why its first plugin is quarantined.
func printReason(dir string, locked bool) {
	cfg := Config{Dir: dir, Log: hclog.NewNullLogger(), Rescan: -1}
	if locked {
		sum, err := pluginlock.SumFile(filepath.Join(dir, "plugin"))
		if err != nil {
			panic(err)
		}
		cfg.Lock = &pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: "plugin", SHA256: sum}}}
	}
	host, err := New(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	for _, entry := range host.Entries() {
		fmt.Println(entry.Quarantined)
	}
	host.Close()
	os.Exit(0)
}

func give(t *testing.T, path string, user int) {
	t.Helper()
	require.NoError(t, os.Lchown(path, user, user))
}

func mode(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(path, mode))
}
