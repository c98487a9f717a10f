//go:build linux

package pluginhost

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// lockedHost returns a running host with the lock in dir.
func lockedHost(t *testing.T, dir string, lock *pluginlock.Lock, change func(*Config)) *testHost {
	t.Helper()
	return newTestHost(t, dir, func(c *Config) {
		c.Lock, c.LockPath = lock, filepath.Join(dir, pluginlock.FileName)
		if change != nil {
			change(c)
		}
	})
}

// relocked replaces the lock in dir, as "cleat plugin lock" does.
func relocked(t *testing.T, dir string, lock *pluginlock.Lock, change func(*pluginlock.Lock)) {
	t.Helper()
	next := &pluginlock.Lock{Plugins: append([]pluginlock.Plugin(nil), lock.Plugins...)}
	change(next)
	require.NoError(t, next.Write(filepath.Join(dir, pluginlock.FileName)))
}

// added puts a plugin into dir and returns its entry for a lock.
func added(t *testing.T, dir string) pluginlock.Plugin {
	t.Helper()
	built, err := buildMisbehave()
	require.NoError(t, err)
	require.NoError(t, os.Link(built, filepath.Join(dir, "named-new")))
	sum, err := pluginlock.SumFile(built)
	require.NoError(t, err)
	return pluginlock.Plugin{
		Path: "named-new", SHA256: sum,
		Provides: []pluginlock.Provided{{Kind: "BackupItemAction", Version: 1, Name: "example.io/named-new"}},
	}
}

// grown replaces the file by one with other content and the same behaviour, and returns its sum.
func grown(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	writeExecutable(t, path+".tmp", string(content)+"more")
	require.NoError(t, os.Rename(path+".tmp", path))
	sum, err := pluginlock.SumFile(path)
	require.NoError(t, err)
	return sum
}

// testLockChanges writes the lock again while the server runs, and checks that unaffected plugins are not restarted.
func testLockChanges(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	h := lockedHost(t, dir, lock, nil)
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	old := actionNamed(t, session, "example.io/behave")
	first := processOf(t, old)

	entry := added(t, dir)
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, "plugin /plugins/named-new is not started: it is not in the lock; "+rewrite, h.refused())
	relocked(t, dir, lock, func(l *pluginlock.Lock) { l.Plugins = append(l.Plugins, entry) })
	require.NoError(t, h.Rescan(t.Context()))
	require.Empty(t, h.refused(), "added")
	_, err := execute(t.Context(), h.action(t, "example.io/named-new"), "nothing")
	require.NoError(t, err)
	require.Len(t, h.Lock().Plugins, 3)
	require.Contains(t, h.log.String(), "[INFO]  the lock has changed and is in force: lock="+dir+"/plugins.lock files=3")
	require.Equal(t, first, processOf(t, h.behave(t)), "what did not change goes on running")

	sum := grown(t, filepath.Join(dir, mover))
	require.NoError(t, h.Rescan(t.Context()))
	require.Contains(t, h.refused(), "the file has changed")
	relocked(t, dir, lock, func(l *pluginlock.Lock) {
		for i := range l.Plugins {
			if l.Plugins[i].Path == mover {
				l.Plugins[i].SHA256 = sum
			}
		}
	})
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, "plugin /plugins/named-new is not started: it is not in the lock; "+rewrite, h.refused(),
		"one replaced, one taken out")
	require.NotEqual(t, first, processOf(t, h.behave(t)))
	require.Equal(t, first, processOf(t, old), "a run keeps the lock with which it began")
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	requireReaped(t, first)
	require.NotEqual(t, processOf(t, h.behave(t)), processOf(t, old), "also when its process has to be started again")

	relocked(t, dir, lock, func(l *pluginlock.Lock) { l.Plugins = nil })
	require.NoError(t, h.Rescan(t.Context()))
	again := h.Session("", hclog.NewNullLogger())
	defer again.Close()
	require.Empty(t, All(again, kinds.BackupItemActions()...))
	require.Equal(t, 3, strings.Count(h.reasons(), "it is not in the lock"))

	relocked(t, dir, lock, func(l *pluginlock.Lock) {
		for i := range l.Plugins {
			if l.Plugins[i].Path == mover {
				l.Plugins[i].SHA256 = sum
				l.Plugins[i].Provides = l.Plugins[i].Provides[:1]
			}
		}
	})
	require.NoError(t, h.Rescan(t.Context()))
	require.Contains(t, h.reasons(), "which the lock does not have", "of the mover")
	_, err = execute(t.Context(), h.action(t, "example.io/named-bystander"), "nothing")
	require.NoError(t, err, "it is back")
}

// testLockThatIsNotTakenOver checks that an invalid lock leaves the last one in force, and that the reason is shown
// until it is repaired.
func testLockThatIsNotTakenOver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		wrong, right func(t *testing.T, path string, lock *pluginlock.Lock) // right may be nil: the lock is written again
		want         string
	}{
		"it is not a lock": {
			wrong: func(t *testing.T, path string, _ *pluginlock.Lock) {
				require.NoError(t, os.WriteFile(path, []byte("plugins: []\n"), 0o600))
			},
			want: "the lock is not used, the server keeps the last lock that it accepted: /plugins/plugins.lock:1: the lock " +
				"has no apiVersion, " +
				"want the keys apiVersion, plugins",
		},
		"it was removed": {
			wrong: func(t *testing.T, path string, _ *pluginlock.Lock) { require.NoError(t, os.Remove(path)) },
			want:  `the lock was removed; the server keeps to what it said, write it again with "cleat plugin lock"`,
		},
		"it is a folder": {
			wrong: func(t *testing.T, path string, _ *pluginlock.Lock) {
				require.NoError(t, os.Remove(path))
				require.NoError(t, os.Mkdir(path, 0o755))
			},
			right: func(t *testing.T, path string, lock *pluginlock.Lock) {
				require.NoError(t, os.Remove(path))
				require.NoError(t, lock.Write(path))
			},
			want: "the lock is not used, the server keeps the last lock that it accepted: it is not a regular file but " +
				"d---------",
		},
		"it is a pipe": {
			wrong: func(t *testing.T, path string, _ *pluginlock.Lock) {
				require.NoError(t, os.Remove(path))
				require.NoError(t, syscall.Mkfifo(path, 0o600))
			},
			want: "the lock is not used, the server keeps the last lock that it accepted: it is not a regular file but " +
				"p---------",
		},
		"others can write it": {
			wrong: func(t *testing.T, path string, _ *pluginlock.Lock) {
				other := filepath.Join(t.TempDir(), "lock")
				require.NoError(t, (&pluginlock.Lock{}).Write(other))
				require.NoError(t, os.Chmod(other, 0o664))
				require.NoError(t, os.Rename(other, path))
			},
			want: `the lock is not used, the server keeps the last lock that it accepted: others than its owner can change the file ` +
				`/plugins/plugins.lock, its mode is -rw-rw-r--; run "chmod go-w /plugins/plugins.lock"`,
		},
		"others can put another in its place": {
			wrong: func(t *testing.T, path string, lock *pluginlock.Lock) {
				require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
				relocked(t, filepath.Dir(path), lock, func(l *pluginlock.Lock) { l.Plugins = nil })
			},
			right: func(t *testing.T, path string, lock *pluginlock.Lock) {
				require.NoError(t, lock.Write(path)) // first, because the other is adopted otherwise
				require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
			},
			want: `the lock is not used, the server keeps the last lock that it accepted: others than its owner can change the directory /plugins, ` +
				`its mode is drwxrwxrwx; run "chmod go-w /plugins"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, lock := lockedDir(t)
			registry := prometheus.NewRegistry()
			h := lockedHost(t, dir, lock, func(c *Config) { c.Metrics = registry })
			path := filepath.Join(dir, pluginlock.FileName)
			require.Empty(t, h.refused())
			running := processOf(t, h.behave(t))

			test.wrong(t, path, lock)
			leavesMark(t, filepath.Join(dir, "added"))
			require.NoError(t, h.Rescan(t.Context()))
			require.Equal(t, "plugin /plugins/added is not started: it is not in the lock; "+rewrite+"\n"+test.want, h.reasons())
			require.Equal(t, lock, h.Lock())
			require.Zero(t, h.journalCount("mark"), "nothing is unlocked")
			require.Contains(t, strings.ReplaceAll(h.log.String(), dir, "/plugins"),
				"[ERROR] plugin is quarantined: cmd=/plugins/plugins.lock")
			require.Equal(t, 1.0, gathered(t, registry)["info "+path+"     quarantined 0"])
			require.Equal(t, running, processOf(t, h.behave(t)), "what has the lock works")
			require.NoError(t, syscall.Kill(running, syscall.SIGKILL))
			requireReaped(t, running)
			if name == "others can put another in its place" {
				_, err := execute(t.Context(), h.behave(t), "nothing")
				require.ErrorContains(t, err, "others than its owner can change the directory", "of the plugins as well")
			} else {
				require.NotEqual(t, running, processOf(t, h.behave(t)), "and is started again")
			}

			if test.right == nil {
				require.NoError(t, lock.Write(path))
			} else {
				test.right(t, path, lock)
			}
			require.NoError(t, h.Rescan(t.Context()))
			require.Equal(t, "plugin /plugins/added is not started: it is not in the lock; "+rewrite, h.reasons())
			require.Contains(t, h.log.String(), "[INFO]  the lock is again what is in force")
			require.NotContains(t, h.log.String(), "plugin was removed", "it never was a plugin")
		})
	}
}

// testLockThatDoesNotHold checks that the host does not start with a lock that others can change, because they would
// decide what runs. On a volume of its pod it starts with a warning.
func testLockThatDoesNotHold(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	path := filepath.Join(dir, pluginlock.FileName)
	require.NoError(t, os.Chmod(path, 0o666))
	_, err := New(t.Context(), Config{Dir: dir, Lock: lock, LockPath: path})
	require.EqualError(t, err, "the lock does not hold: others than its owner can change the file "+path+
		`, its mode is -rw-rw-rw-; run "chmod go-w `+path+`"`)

	h := lockedHost(t, dir, lock, func(c *Config) { c.isVolume = func(string) bool { return true } })
	require.Empty(t, h.refused())
	require.Contains(t, h.log.String(), "[WARN]  everything that shares this volume of the pod can change the lock, and "+
		"so what runs")
}

// testLockOfAVolume mounts the lock from a ConfigMap and swaps it as the kubelet does, without a call of Rescan.
func testLockOfAVolume(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	mount := filepath.Join(t.TempDir(), "mount")
	require.NoError(t, os.Mkdir(mount, 0o755))
	publish := func(generation string, lock *pluginlock.Lock) {
		require.NoError(t, os.Mkdir(filepath.Join(mount, generation), 0o755))
		require.NoError(t, lock.Write(filepath.Join(mount, generation, "lock")))
		require.NoError(t, os.Symlink(generation, filepath.Join(mount, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	}
	publish("..1", lock)
	require.NoError(t, os.Symlink("..data/lock", filepath.Join(mount, "lock")))
	h := newTestHost(t, dir, func(c *Config) { c.Lock, c.LockPath, c.Rescan = lock, filepath.Join(mount, "lock"), -1 })
	require.Empty(t, h.refused())
	publish("..2", &pluginlock.Lock{Plugins: lock.Plugins[1:]})
	require.Eventually(t, func() bool { return h.refused() != "" }, longEnough, aMoment)
	require.NoError(t, os.RemoveAll(filepath.Join(mount, "..1")))
	publish("..3", lock)
	require.Eventually(t, func() bool { return h.refused() == "" }, longEnough, aMoment)
}

// testLockAppears checks that a server that began without a lock adopts one that is written later.
func testLockAppears(t *testing.T) {
	t.Parallel()
	dir, lock := lockedDir(t)
	path := filepath.Join(dir, pluginlock.FileName)
	require.NoError(t, os.Remove(path))
	h := lockedHost(t, dir, nil, nil)
	entry := added(t, dir)
	require.NoError(t, h.Rescan(t.Context()))
	require.Empty(t, h.refused())
	running := processOf(t, h.behave(t))

	require.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, "the lock is not used, the server has none: /plugins/plugins.lock:1: the lock is not a mapping, "+
		"want the keys apiVersion, plugins", h.refused())
	require.NoError(t, lock.Write(path))
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, "plugin /plugins/named-new is not started: it is not in the lock; "+rewrite, h.refused())
	require.Equal(t, running, processOf(t, h.behave(t)))
	relocked(t, dir, lock, func(l *pluginlock.Lock) { l.Plugins = append(l.Plugins, entry) })
	require.NoError(t, h.Rescan(t.Context()))
	require.Empty(t, h.refused())
}

// testLockWithItsFiles swaps a link to the plugin directory, so that the files and their lock change together. The
// plugin is available to every run.
func testLockWithItsFiles(t *testing.T) {
	t.Parallel()
	_, template := lockedDir(t)
	above := t.TempDir()
	dir := filepath.Join(above, "plugins")
	publish := func(generation int) *pluginlock.Lock {
		folder := filepath.Join(above, strconv.Itoa(generation))
		require.NoError(t, os.Mkdir(folder, 0o755))
		version(t, filepath.Join(folder, "behave"), generation)
		sum, err := pluginlock.SumFile(filepath.Join(folder, "behave"))
		require.NoError(t, err)
		lock := &pluginlock.Lock{
			Plugins: []pluginlock.Plugin{{Path: "behave", SHA256: sum, Provides: template.Plugins[0].Provides}},
		}
		require.NoError(t, lock.Write(filepath.Join(folder, pluginlock.FileName)))
		require.NoError(t, os.Symlink(folder, dir+".new"))
		require.NoError(t, os.Rename(dir+".new", dir))
		return lock
	}
	h := lockedHost(t, dir, publish(1), nil)
	for generation := 2; generation < 5; generation++ {
		looked := make(chan error)
		publish(generation)
		go func() { looked <- h.Rescan(t.Context()) }()
		for seen := false; !seen; {
			select {
			case err := <-looked:
				require.NoError(t, err)
				seen = true
			default:
				require.Contains(t, []int{generation - 1, generation}, h.seen(t))
			}
		}
		require.Equal(t, generation, h.seen(t))
	}
	require.NotContains(t, h.log.String(), "[ERROR]")
}

// reasons returns the reasons of all quarantined entries, one per line.
func (h *testHost) reasons() string {
	var reasons []string
	for _, entry := range h.Entries() {
		if entry.Quarantined != "" {
			reasons = append(reasons, entry.Quarantined)
		}
	}
	return withoutSums(strings.ReplaceAll(strings.Join(reasons, "\n"), h.dir, "/plugins"))
}
