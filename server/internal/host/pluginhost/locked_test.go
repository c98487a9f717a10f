//go:build linux

package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

const (
	mover     = "vendor/behave"
	bystander = "zz/named-bystander"
	rewrite   = `if that is what you want to run, write the lock again with "cleat plugin lock"`
)

// TestAcceptPlugins_Lock checks that a locked host runs only the binaries of the lock, and why the others are refused.
// Every plugin process leaves a mark at its start, which shows that a refused binary did not run.
func TestAcceptPlugins_Lock(t *testing.T) {
	t.Parallel()
	t.Run("found at the start", testLockAtTheStart)
	t.Run("a link is swapped while its plugin runs", testLockOfASwappedLink)
	t.Run("a file is replaced between check and start", testLockOfAReplacedFile)
	t.Run("a script is replaced between check and start", testLockOfAReplacedScript)
	t.Run("a file is written to between check and start", testLockOfAnOverwrittenFile)
	t.Run("a file is changed before a restart", testLockAtARestart)
	t.Run("the server's own plugins need no lock", testLockOfBuiltIns)
	t.Run("the lock is written again", testLockChanges)
	t.Run("others can write the lock at the start", testLockThatDoesNotHold)
	t.Run("an invalid lock is not adopted", testLockThatIsNotTakenOver)
	t.Run("the lock is mounted from a ConfigMap", testLockOfAVolume)
	t.Run("the lock appears", testLockAppears)
	t.Run("the lock is swapped together with its files", testLockWithItsFiles)
}

// testLockAtTheStart writes the lock for a directory with two plugins, changes one of them, and starts the server.
func testLockAtTheStart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(t *testing.T, dir string, lock *pluginlock.Lock)
		want   string // why the first entry is quarantined; empty when it works
		starts int    // of processes, the other plugin's included
	}{
		"nothing is changed": {
			change: func(*testing.T, string, *pluginlock.Lock) {}, starts: 2,
		},
		"a byte": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) { changeByte(t, filepath.Join(dir, mover)) },
			want: `plugin /plugins/vendor/behave is not started: its sha256 sum is SUM, the lock has SUM: ` +
				`the file has changed; ` + rewrite,
			starts: 1,
		},
		"a link in its place, to another file": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) {
				require.NoError(t, os.Remove(filepath.Join(dir, mover)))
				other := filepath.Join(t.TempDir(), "other")
				leavesMark(t, other)
				require.NoError(t, os.Symlink(other, filepath.Join(dir, mover)))
			},
			want: `plugin /plugins/vendor/behave is not started: its sha256 sum is SUM, the lock has SUM: ` +
				`the file has changed; ` + rewrite,
			starts: 1,
		},
		"a link in its place, to the same content": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) {
				other := filepath.Join(t.TempDir(), "other")
				require.NoError(t, os.Rename(filepath.Join(dir, mover), other))
				require.NoError(t, os.Symlink(other, filepath.Join(dir, mover)))
			},
			starts: 2,
		},
		"a file without an entry": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) { leavesMark(t, filepath.Join(dir, "added")) },
			want:   `plugin /plugins/added is not started: it is not in the lock; ` + rewrite,
			starts: 2,
		},
		"an entry without its file": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) {
				require.NoError(t, os.Remove(filepath.Join(dir, mover)))
			},
			want:   pluginlock.MissingReason,
			starts: 1,
		},
		"an entry whose file cannot be executed": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) {
				require.NoError(t, os.Chmod(filepath.Join(dir, mover), 0o644))
			},
			want:   "it is in the lock, but left out: it is not executable, its mode is -rw-r--r--",
			starts: 1,
		},
		"what it provides": {
			change: func(_ *testing.T, _ string, lock *pluginlock.Lock) {
				for i := range lock.Plugins {
					if lock.Plugins[i].Path == mover {
						lock.Plugins[i].Provides[0].Name = "example.io/another"
					}
				}
			},
			want: `it does not provide AsyncBackupItemAction example.io/another and it provides AsyncBackupItemAction example.io/async, ` +
				`which the lock does not have; ` + rewrite,
			starts: 2,
		},
		"who can write there": {
			change: func(t *testing.T, dir string, _ *pluginlock.Lock) {
				require.NoError(t, os.Chmod(filepath.Join(dir, "vendor"), 0o777))
			},
			want: `plugin /plugins/vendor/behave is not started: others than its owner can change the directory /plugins/vendor, ` +
				`its mode is drwxrwxrwx; run "chmod go-w /plugins/vendor"`,
			starts: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, lock := lockedDir(t)
			test.change(t, dir, lock)
			h := newTestHost(t, dir, func(c *Config) { c.Lock = lock })
			require.Equal(t, test.want, h.refused())
			require.Equal(t, test.starts, h.journalCount("start"))
			require.Zero(t, h.journalCount("mark"), "what was refused has not run")
			if test.want == "" {
				_, err := execute(t.Context(), h.behave(t), "nothing")
				require.NoError(t, err)
			}
			_, err := execute(t.Context(), h.action(t, "example.io/named-bystander"), "nothing")
			require.NoError(t, err, "the other plugin works")
		})
	}
}

func testLockOfASwappedLink(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	path, original := filepath.Join(dir, mover), filepath.Join(t.TempDir(), "original")
	require.NoError(t, os.Rename(path, original))
	require.NoError(t, os.Symlink(original, path))
	h := newTestHost(t, dir, func(c *Config) { c.Lock = lock })
	require.Empty(t, h.refused())
	action := h.behave(t)
	first := processOf(t, action)

	other := filepath.Join(t.TempDir(), "other")
	leavesMark(t, other)
	require.NoError(t, os.Symlink(other, path+".new"))
	require.NoError(t, os.Rename(path+".new", path))
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, `plugin /plugins/vendor/behave is not started: its sha256 sum is SUM, the lock has SUM: `+
		`the file has changed; `+rewrite, h.refused())

	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	requireReaped(t, first)
	require.NotEqual(t, first, processOf(t, action), "who has begun with the locked file goes on with it")
	require.Zero(t, h.journalCount("mark"))
}

func testLockOfAReplacedFile(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	h := newTestHost(t, dir, func(c *Config) { c.Lock = lock })
	action := h.behave(t)
	path := filepath.Join(dir, mover)
	h.afterNextCheck(t, processOf(t, action), func() {
		leavesMark(t, path+".new")
		require.NoError(t, os.Rename(path+".new", path))
	})
	_, err := execute(t.Context(), action, "nothing")
	require.NoError(t, err, "what was checked is what runs")
	require.Zero(t, h.journalCount("mark"))
}

// testLockOfAReplacedScript covers scripts, because the interpreter opens the file again by its path.
func testLockOfAReplacedScript(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	lockScript(t, dir, lock)
	path := filepath.Join(dir, mover)
	h := newTestHost(t, dir, func(c *Config) { c.Lock = lock })
	require.Empty(t, h.refused())
	action := h.behave(t)
	h.afterNextCheck(t, processOf(t, action), func() {
		leavesMark(t, path+".new")
		require.NoError(t, os.Rename(path+".new", path))
	})
	_, err := execute(t.Context(), action, "nothing")
	require.NoError(t, err, "what was checked is what runs")
	require.Zero(t, h.journalCount("mark"))
}

func testLockOfAnOverwrittenFile(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	h := newTestHost(t, dir, func(c *Config) { c.Lock = lock })
	action := h.behave(t)
	h.afterNextCheck(t, processOf(t, action), func() { changeByte(t, filepath.Join(dir, mover)) })
	_, err := execute(t.Context(), action, "nothing")
	require.NoError(t, err, "what was checked is what runs")
	pid := processOf(t, action)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	requireReaped(t, pid)
	_, err = execute(t.Context(), action, "wait")
	require.ErrorContains(t, err, "the file has changed", "the next start is checked as well")
	require.Zero(t, h.journalCount("waiting"))
}

func testLockAtARestart(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	h := newTestHost(t, dir, func(c *Config) { c.Lock = lock })
	action := h.behave(t)
	first := processOf(t, action)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	requireReaped(t, first)
	changeByte(t, filepath.Join(dir, mover))
	starts := h.journalCount("start")
	_, err := execute(t.Context(), action, "nothing")
	require.Equal(t, `BackupItemAction(example.io/behave): plugin /plugins/vendor/behave is not started: `+
		`its sha256 sum is SUM, the lock has SUM: the file has changed; `+rewrite, withoutSums(h.golden(err)))
	require.Equal(t, starts, h.journalCount("start"))
}

func testLockOfBuiltIns(t *testing.T) {
	t.Parallel()
	self, err := buildMisbehave()
	require.NoError(t, err)
	h := newTestHost(t, t.TempDir(), func(c *Config) {
		c.BuiltIns = builtIns("cleat.dev/first")
		c.Isolate, c.Self, c.Lock = true, self, &pluginlock.Lock{}
	})
	_, err = execute(t.Context(), h.behave(t), "nothing")
	require.NoError(t, err)
}

// lockedDir returns a plugin directory with two plugins, and the lock for it.
func lockedDir(t *testing.T) (string, *pluginlock.Lock) {
	t.Helper()
	dir, lock := t.TempDir(), &pluginlock.Lock{}
	require.NoError(t, os.Chmod(dir, 0o755))
	built, err := buildMisbehave()
	require.NoError(t, err)
	content, err := os.ReadFile(built)
	require.NoError(t, err)
	sum, err := pluginlock.Sum(strings.NewReader(string(content)))
	require.NoError(t, err)
	provides := map[string][]pluginlock.Provided{
		bystander: {{Kind: "BackupItemAction", Version: 1, Name: "example.io/named-bystander"}},
	}
	for _, r := range newTestHost(t, pluginDir(t, "behave"), nil).Entries() {
		kind, version := hostapi.SplitWireKind(r.Kind)
		provides[mover] = append(provides[mover], pluginlock.Provided{Kind: kind, Version: version, Name: r.Name})
	}
	for _, path := range []string{mover, bystander} {
		require.NoError(t, os.Mkdir(filepath.Dir(filepath.Join(dir, path)), 0o755))
		writeExecutable(t, filepath.Join(dir, path), string(content)) // a copy: the tests change it
		lock.Plugins = append(lock.Plugins, pluginlock.Plugin{Path: path, SHA256: sum, Provides: provides[path]})
	}
	file := filepath.Join(dir, pluginlock.FileName)
	require.NoError(t, lock.Write(file))
	lock, err = pluginlock.Read(file)
	require.NoError(t, err)
	return dir, lock
}

// lockScript replaces the first plugin of a locked directory by a script, in the lock as well.
func lockScript(t *testing.T, dir string, lock *pluginlock.Lock) {
	t.Helper()
	built, err := buildMisbehave()
	require.NoError(t, err)
	path := filepath.Join(dir, mover)
	require.NoError(t, os.Remove(path))
	script := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n%s\n", built, strings.Repeat("#", 200))
	writeExecutable(t, path, script)
	sum, err := pluginlock.Sum(strings.NewReader(script))
	require.NoError(t, err)
	for i := range lock.Plugins {
		if lock.Plugins[i].Path == mover {
			lock.Plugins[i].SHA256 = sum
		}
	}
}

// changeByte changes the last byte of a file, in place.
func changeByte(t *testing.T, path string) {
	t.Helper()
	syscall.ForkLock.RLock() // see writeExecutable
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	require.NoError(t, err)
	last[0]++
	_, err = file.WriteAt(last, info.Size()-1)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// leavesMark writes a program that leaves a mark when it runs.
func leavesMark(t *testing.T, path string) {
	t.Helper()
	writeExecutable(t, path, "#!/bin/sh\necho mark >> \"$CLEAT_TEST_JOURNAL\"\n")
}

// afterNextCheck ends the process of the misbehaving plugin, and calls do between the check and the start of the next
// one.
func (h *testHost) afterNextCheck(t *testing.T, pid int, do func()) {
	t.Helper()
	launch := h.history.now().catalog.rows[0].source.launch
	check := launch.Check
	launch.Check = func(b *process.Binary) (*process.Binary, error) {
		run, err := check(b)
		if do != nil {
			do()
			do = nil
		}
		return run, err
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	requireReaped(t, pid)
}
