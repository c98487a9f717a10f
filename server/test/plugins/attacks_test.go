package plugins_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// probed holds the attempts of a program in an image; see testdata/probe.
type probed struct {
	Marker, Read, Dial, Socket, Secret string
	Serve, Hang                        bool
}

// adder is a user who calls "cleat plugin add".
type adder struct {
	t                *testing.T
	home, dir, cleat string
	environment      []string
	user             *syscall.Credential // nil for the user of the test
	bare             bool                // the kernel gives the user no namespaces
	registry         string
	probed           probed
}

// newAdder returns a user with a home, secrets in the environment, and an empty plugin directory. uid is -1 for the
// user of the test.
func newAdder(t *testing.T, uid int) *adder {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "adder-*") // not in the directory of the test, which is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	a := &adder{t: t, home: home, dir: filepath.Join(home, "plugins"), cleat: filepath.Join(home, "cleat")}
	programs.Copy(t, "server/cmd/cleat", a.cleat)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	a.registry = strings.TrimPrefix(server.URL, "http://")
	open := filepath.Join(home, "open")
	require.NoError(t, os.Mkdir(open, 0o755))
	require.NoError(t, os.Chmod(open, 0o777)) //nolint:gosec // every user could write there
	secret := filepath.Join(home, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	socket, err := net.Listen("unix", filepath.Join(home, "s"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	require.NoError(t, os.Chmod(filepath.Join(home, "s"), 0o600))
	a.probed = probed{Marker: filepath.Join(open, "ran"), Read: secret, Dial: a.registry, Socket: filepath.Join(home, "s"),
		Secret: "hunter2-" + filepath.Base(home)}
	a.environment = append(os.Environ(), "HOME="+home, "KUBECONFIG="+secret, "AWS_SECRET_ACCESS_KEY="+a.probed.Secret)
	if uid < 0 {
		return a
	}
	a.environment = append(a.environment, "TMPDIR=/tmp")
	a.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	require.NoError(t, filepath.Walk(home,
		func(path string, _ os.FileInfo, _ error) error { return os.Chown(path, uid, uid) }))
	return a
}

// push pushes an image with files below /plugins, and returns its name.
func (a *adder) push(tag string, files map[string][]byte) string {
	a.t.Helper()
	ref, err := name.ParseReference(a.registry + "/team/probe:" + tag)
	require.NoError(a.t, err)
	require.NoError(a.t, remote.Write(ref, imageWith(a.t, func(w *tar.Writer) {
		for file, content := range files {
			require.NoError(a.t, w.WriteHeader(&tar.Header{Name: "plugins/" + file, Mode: 0o755, Size: int64(len(content))}))
			_, err = w.Write(content)
			require.NoError(a.t, err)
		}
	})))
	return ref.String()
}

// probe returns the program.
func (a *adder) probe(serve bool) []byte {
	a.t.Helper()
	program, err := os.ReadFile(programs.Build(a.t, "server/test/plugins/testdata/probe"))
	require.NoError(a.t, err)
	what := a.probed
	what.Serve = serve
	ending, err := json.Marshal(what)
	require.NoError(a.t, err)
	return append(append(program, "\nprobe:"...), ending...)
}

// run runs "cleat plugin", on the directory.
func (a *adder) run(command string, args ...string) (string, error) {
	a.t.Helper()
	var out bytes.Buffer
	cmd := a.command(command, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	a.t.Logf("plugin %s %s: %v\n%s", command, args, err, &out)
	return out.String(), err
}

// command returns the command that run runs.
func (a *adder) command(command string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(a.t.Context(), a.cleat, append([]string{"plugin", command, "--plugin-dir", a.dir},
		args...)...)
	cmd.Dir, cmd.Env = a.home, a.environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.user}
	if a.bare {
		cmd.Args = append([]string{"sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"`, a.cleat},
			cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		id := int(a.user.Uid)
		cmd.SysProcAttr.Cloneflags, cmd.SysProcAttr.AmbientCaps = syscall.CLONE_NEWUSER, []uintptr{unix.CAP_SYS_RESOURCE}
		// Root owns "/".
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1},
			{ContainerID: id, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = cmd.SysProcAttr.UidMappings
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	}
	return cmd
}

// below returns the processes that a process has started, directly or indirectly. Zombies do not count.
func below(pid int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path) // fails if the process has ended
		var state string
		var parent int
		_, fields, _ := strings.Cut(string(stat), ") ")
		if _, err := fmt.Sscan(fields, &state, &parent); err != nil || parent != pid || state == "Z" {
			continue
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		pids = append(append(pids, child), below(child)...)
	}
	return pids
}

// TestAcceptSecurity_PluginAddKilled kills the command while it waits for a program. Neither the program nor its files
// remain.
func TestAcceptSecurity_PluginAddKilled(t *testing.T) {
	t.Parallel()
	a := newAdder(t, -1)
	a.probed.Hang = true
	image := a.push("hangs", map[string][]byte{"probe": a.probe(false)})
	cmd := a.command("add", image)
	require.NoError(t, cmd.Start())
	var started []int
	require.Eventually(t, func() bool {
		started = below(cmd.Process.Pid)
		return len(started) == 2 // the process without rights, and the program
	}, 5*time.Minute, 50*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range started {
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || bytes.Contains(stat, []byte(") Z "))
		}, 5*time.Minute, 50*time.Millisecond)
	}
	a.probed.Hang = false
	_, err := a.run("add", a.push("serves", map[string][]byte{"probe": a.probe(true)}))
	require.NoError(t, err)
	require.Equal(t, []string{".images.json", "probe"}, a.files(), "what the killed command has left is removed")
}

// files returns the files in the plugin directory.
func (a *adder) files() []string {
	a.t.Helper()
	var names []string
	entries, err := os.ReadDir(a.dir)
	require.NoError(a.t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestAcceptSecurity_PluginAdd adds images whose programs try to use the rights, the environment, the files and the
// network of the user who adds them, as root and as another user. It also adds an image with the files that control
// which programs a server runs.
func TestAcceptSecurity_PluginAdd(t *testing.T) {
	t.Parallel()
	users := map[string]int{"as the user of the test": -1}
	if os.Getuid() == 0 {
		users = map[string]int{"as root": -1, "as another user": 64001}
	}
	for who, uid := range users {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			testAddOfPrograms(t, newAdder(t, uid))
		})
	}
}

// TestAcceptSecurity_PluginAddWithoutNamespaces adds an image if the kernel does not give the user namespaces, as in
// many containers.
func TestAcceptSecurity_PluginAddWithoutNamespaces(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can take the namespaces from another user")
	}
	a := newAdder(t, 64002)
	a.bare = true
	out, err := a.run("add", a.push("fails", map[string][]byte{"probe": a.probe(false)}))
	require.Error(t, err)
	require.Contains(t, out, "Note: the kernel refuses namespaces")
	require.Contains(t, out, "user 64002 64002 []")
	require.Contains(t, out, "capabilities 0 0 new false")
	require.Contains(t, out, "read false write false others false")
	require.NotRegexp(t, `environment [^|]*(HOME|KUBECONFIG|AWS)`, out)
	require.NoFileExists(t, a.probed.Marker)
	_, err = a.run("add", a.push("serves", map[string][]byte{"probe": a.probe(true)}))
	require.NoError(t, err)
}

func testAddOfPrograms(t *testing.T, a *adder) {
	t.Helper()
	// A program that is not in the lock does not run, even if "add" has put it into the directory.
	require.NoError(t, os.Mkdir(a.dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, "plugins.lock"),
		[]byte("apiVersion: cleat.dev/v1\nplugins: []\n"), 0o600))
	if a.user != nil {
		require.NoError(t, os.Chown(a.dir, int(a.user.Uid), int(a.user.Gid)))
		require.NoError(t, os.Chown(filepath.Join(a.dir, "plugins.lock"), int(a.user.Uid), int(a.user.Gid)))
	}
	fails := a.push("fails", map[string][]byte{"probe": a.probe(false)})
	out, err := a.run("add", fails)
	require.Error(t, err)
	require.NoFileExists(t, a.probed.Marker, "it was run before its sum was compared with the lock")
	require.NotContains(t, out, "user ")
	require.Contains(t, out, "--lock")
	require.Equal(t, []string{"plugins.lock"}, a.files())

	// With --lock it runs, but without the rights of the user.
	out, err = a.run("add", fails, "--lock")
	require.Error(t, err)
	_ = os.Remove(a.probed.Marker)
	require.Contains(t, out, "capabilities 0 0 new false")
	require.Contains(t, out, "network false socket false")
	require.Contains(t, out, "read false write false others false")
	require.NotRegexp(t, `environment [^|]*(HOME|KUBECONFIG|AWS)`, out)
	require.Contains(t, out, "user 65534 65534 []")
	require.Equal(t, []string{"plugins.lock"}, a.files())

	serves := a.push("serves", map[string][]byte{"probe": a.probe(true)})
	out, err = a.run("add", serves, "--lock")
	require.NoError(t, err)
	require.Contains(t, out, "digest sha256:")
	require.Contains(t, out, "not verified")
	require.NoFileExists(t, a.probed.Marker)
	require.Equal(t, []string{".images.json", "plugins.lock", "probe"}, a.files())

	// An image cannot bring a file that controls a server or this command.
	for i, file := range []string{"plugins.lock", ".images.json", ".pull-1/x", "sub/plugins.lock", "PLUGINS.LOCK"} {
		out, err := a.run("add",
			a.push(fmt.Sprintf("brings%d", i), map[string][]byte{"probe2": a.probe(true), file: []byte("x")}), "--lock")
		require.Error(t, err, file)
		require.Contains(t, out, file)
	}
	require.Equal(t, []string{".images.json", "plugins.lock", "probe"}, a.files())
}
