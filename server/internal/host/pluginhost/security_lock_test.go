//go:build linux

package pluginhost

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// TestAcceptSecurity_Lock has a writer race the host: as soon as the host has read the beginning of a locked file, the
// writer puts "#!" and a command there, which leaves a mark, and another one from a session of its own. There must be
// no mark: what was hashed is what runs.
func TestAcceptSecurity_Lock(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, dir string, lock *pluginlock.Lock){
		"a program": func(*testing.T, string, *pluginlock.Lock) {},
		"a script":  lockScript,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, lock := lockedDir(t)
			prepare(t, dir, lock)
			h := newTestHost(t, dir, func(c *Config) { c.Lock, c.Restart.Threshold = lock, 1000 })
			require.Empty(t, h.refused())
			path := filepath.Join(dir, mover)
			action := h.behave(t)
			attack := []byte("#!/bin/sh\necho mark >> \"$CLEAT_TEST_JOURNAL\"\nsetsid sh -c 'echo mark >> " +
				"\"$CLEAT_TEST_JOURNAL\"' &\nexit 1\n")
			original, err := os.ReadFile(path)
			require.NoError(t, err)
			ran := 0
			for range 20 {
				pid := processOf(t, action)
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
				requireReaped(t, pid)
				attacked := make(chan struct{})
				read := watchReads(t, path)
				go func() {
					defer close(attacked)
					read()
					overwrite(t, path, attack)
				}()
				if _, err := execute(t.Context(), action, "nothing"); err == nil {
					ran++
				}
				<-attacked
				require.Zero(t, h.journalCount("mark"), "what the writer put there has run")
				overwrite(t, path, original[:len(attack)])
			}
			t.Logf("what was locked ran %d times, and was refused otherwise", ran)
		})
	}
}

// watchReads returns a function that returns when the file has been read, since now.
func watchReads(t *testing.T, path string) (wait func()) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	require.NoError(t, err)
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_ACCESS)
	require.NoError(t, err)
	return func() {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		_ = unix.Close(fd)
	}
}

// overwrite writes to the beginning of a file.
func overwrite(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock() // see writeExecutable
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return // it runs
	}
	_, _ = file.WriteAt(content, 0)
	_ = file.Close()
}
