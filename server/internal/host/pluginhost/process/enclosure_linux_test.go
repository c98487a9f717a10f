package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/output"
)

// needsMounts skips a test that needs a process that may mount.
func needsMounts(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("an enclosure needs root")
	}
}

// runEnclosed runs a shell script in an enclosure and returns what it prints.
func runEnclosed(t *testing.T, e *Enclosure, script string) string {
	t.Helper()
	c, printed := startEnclosed(t, e, script)
	_ = c.Wait(t.Context())
	return printed()
}

// startEnclosed starts a shell script in an enclosure. printed returns what it has printed.
func startEnclosed(t *testing.T, e *Enclosure, script string) (c *child, printed func() string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "plugin")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexec 1>&2\n"+script), 0o755))
	b, err := OpenBinary(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	var mu sync.Mutex
	var lines []string
	c = newChild(b, &output.Output{Clock: clock.RealClock{}, PerSecond: 1000, Drop: func(string) {},
		Pass: func(l output.Line) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, l.Message)
		}})
	c.enclose = e
	private := filepath.Join(dir, "private")
	require.NoError(t, os.Mkdir(private, 0o700))
	require.NoError(t, c.prepare(private, nil, []string{"PATH=/usr/bin:/bin", "MARK=" + t.Name()}))
	require.NoError(t, c.Start(t.Context()))
	go func() { _, _ = c.Stdout().Read(nil) }()
	return c, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}
}

// openAt opens a directory or file for a mount.
func openAt(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, unix.O_PATH, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestEnclosureHasOnlyWhatItIsGiven(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	volume, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(volume, "file"), []byte("content"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(other, "secret"), []byte("of others"), 0o600))
	require.NoError(t, os.Symlink(other, filepath.Join(volume, "out")))
	require.NoError(t, os.Symlink("file", filepath.Join(volume, "in")))
	e := &Enclosure{Mounts: []Mount{{Path: volume, File: openAt(t, volume), Writable: true}, {Path: "/given/empty"}}}
	printed := runEnclosed(t, e, `cd `+volume+` && cat file && echo
cat in || echo "no link inside"
cat out/secret || echo "no link outside"
ls `+other+` || echo "no other directory"
ls /proc/self || echo "no proc"
ls -A / | tr '\n' ' '
ls /given
(echo x > /usr/cleat-test) || echo "usr is read-only"
(echo x > /cleat-test) || echo "the root is read-only"
(echo x > /tmp/file) && echo "tmp is writable"
(echo x > new) && echo "the volume is writable"
mknod device b 7 0 && (cat device || echo "devices cannot be opened")
mount -t tmpfs x /tmp || echo "no mounts"
chroot . /file || echo "no chroot"
echo -n x > /dev/null && echo done`)
	for _, want := range []string{
		"content", "no link inside", "no link outside", "no other directory", "no proc", "empty", "usr is read-only",
		"the root is read-only", "tmp is writable",
		"the volume is writable", "devices cannot be opened", "no mounts", "no chroot", "done",
	} {
		require.Contains(t, printed, want)
	}
	require.NotContains(t, printed, "of others")
	require.NotContains(t, printed, "host_pods")
	require.FileExists(t, filepath.Join(volume, "new"))
	require.NoFileExists(t, "/usr/cleat-test")
	require.NoFileExists(t, "/tmp/file")
}

func TestEnclosureOfBackupIsReadOnly(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	volume := t.TempDir()
	e := &Enclosure{Mounts: []Mount{{Path: "/volume", File: openAt(t, volume)}}, Environment: []string{"OWN=given"}}
	printed := runEnclosed(t, e,
		`(echo x > /volume/new) || echo "read-only"; chown 1 /volume || echo "no owner"; echo $OWN $TMPDIR $MARK`)
	require.Contains(t, printed, "read-only")
	require.Contains(t, printed, "no owner")
	require.Contains(t, printed, "given /tmp "+t.Name())
	require.NoFileExists(t, filepath.Join(volume, "new"))
}

// A process has one volume after the other, each with its restrictions, and a place for devices. What it still uses
// cannot be taken away, which the host must know.
func TestEnclosureGetsOneMountAfterTheOther(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	state, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "secret"), []byte("of others"), 0o600))
	e := &Enclosure{Mounts: []Mount{{Path: "/volume"}, {Path: "/device", Device: true},
		{Path: "/state", File: openAt(t, state), Writable: true}}}
	c, printed := startEnclosed(t, e, `
next() { : > /state/did-$1; until [ -e /state/do-$1 ]; do sleep 0.01; done; }
echo "before: $(ls -A /volume)"; [ -f /device ] && echo "a place for devices"
next first; echo "first: $(cat /volume/file)"; (echo x > /volume/new) || echo "first is read-only"
cat /volume/out/secret || echo "no link"
next second; echo "second: $(ls -A /volume)"; echo x > /volume/new && echo "second is writable"
cat /volume/out/secret || echo "no link"
next hold; exec 3< /volume/file
next release; exec 3<&-
next end; echo "after: $(ls -A /volume)"`)
	wait := func(step string) {
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(state, "did-"+step))
			return err == nil
		}, time.Minute, time.Millisecond)
	}
	proceed := func(step string) { require.NoError(t, os.WriteFile(filepath.Join(state, "do-"+step), nil, 0o600)) }
	volumes := map[string]string{}
	for _, name := range []string{"first", "second"} {
		volume := t.TempDir()
		volumes[name] = volume
		require.NoError(t, os.WriteFile(filepath.Join(volume, "file"), []byte(name), 0o600))
		require.NoError(t, os.Symlink(other, filepath.Join(volume, "out")))
	}
	wait("first")
	require.NoError(t, e.Attach(Mount{Path: "/volume", File: openAt(t, volumes["first"])}))
	proceed("first")
	wait("second")
	require.NoError(t, e.Detach("/volume"))
	require.NoError(t, e.Attach(Mount{Path: "/volume", File: openAt(t, volumes["second"]), Writable: true}))
	proceed("second")
	wait("hold")
	proceed("hold")
	wait("release")
	require.ErrorIs(t, e.Detach("/volume"), unix.EBUSY)
	proceed("release")
	wait("end")
	require.NoError(t, e.Detach("/volume"))
	proceed("end")
	_ = c.Wait(t.Context())
	require.Equal(t, []string{"before: ", "a place for devices", "first: first", "first is read-only", "no link",
		"second: file", "out", "second is writable", "no link", "after: "}, withoutErrors(printed()))
	require.FileExists(t, filepath.Join(volumes["second"], "new"))
	require.NoFileExists(t, filepath.Join(volumes["first"], "new"))
	require.ErrorIs(t, e.Attach(Mount{Path: "/volume", File: openAt(t, volumes["first"])}), ErrEnclosure)
	require.Error(t, e.Detach("/volume"))
}

// withoutErrors returns the lines that programs have printed, without their error messages.
func withoutErrors(printed string) []string {
	return slices.DeleteFunc(strings.Split(printed, "\n"), func(line string) bool {
		return strings.Contains(line, "/volume/")
	})
}

func TestRootOfHostIsNeverInAnEnclosure(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	for _, path := range []string{"/", "//", "/../", "relative"} {
		e := &Enclosure{Mounts: []Mount{{Path: path, File: openAt(t, "/")}}}
		trees, _, err := e.detach(&Binary{Path: "/plugins/none"}, t.TempDir())
		for _, tree := range trees {
			require.NoError(t, unix.Close(tree.fd))
		}
		require.ErrorContains(t, err, "expected an absolute path other than /", path)
	}
}

func TestHostStaysOutsideOfEnclosures(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	before, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	require.Contains(t, runEnclosed(t, &Enclosure{}, "echo done"), "done")
	after, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	require.Equal(t, before, after)
	_, err = os.Stat("/proc/self/mountinfo")
	require.NoError(t, err)
}

func TestPathsInMountinfoAreUnescaped(t *testing.T) {
	t.Parallel()
	for escaped, want := range map[string]string{`/a\040b`: "/a b", `/a\134b`: `/a\b`, "/a": "/a", `/a\`: `/a\`,
		`/\04`: `/\04`, `/\999`: `/\999`} {
		require.Equal(t, want, unescaped(escaped))
	}
}

func TestSocketOfEnclosedProcessIsItsOwn(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	listen := func(path string) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
		require.NoError(t, unix.Listen(fd, 1))
	}
	listen(filepath.Join(dir, "own"))
	listen(filepath.Join(other, "foreign"))
	require.NoError(t, os.Symlink(filepath.Join(other, "foreign"), filepath.Join(dir, "link")))
	path, release, err := socketIn(dir, filepath.Join(dir, "own"))
	require.NoError(t, err)
	defer release()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer func() { _ = syscall.Close(fd) }()
	require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
	for _, wrong := range []string{filepath.Join(other, "foreign"), filepath.Join(dir, "link"),
		filepath.Join(dir, "none")} {
		_, _, err := socketIn(dir, wrong)
		require.Error(t, err, wrong)
	}
}

// A process that is started meanwhile has the files of this one until it runs its program. It may not keep the copy of
// a binary open.
func TestEnclosuresAreMadeWhileOtherProcessesStart(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	var starters sync.WaitGroup
	defer starters.Wait()
	done := make(chan struct{})
	defer close(done)
	for range 4 {
		starters.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("/bin/true").Run()
				}
			}
		})
	}
	large := "echo done; exit\n" + strings.Repeat("#", 4<<20)
	for range 20 {
		require.Equal(t, "done", runEnclosed(t, &Enclosure{}, large))
	}
}
