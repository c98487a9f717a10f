package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/location"
)

// scratchPrefix begins the names of the directories of servers in the directory of temporary files.
const scratchPrefix = "cleat-server-"

// scratchBase returns the directory of temporary files, by its option.
func scratchBase(configured string) string {
	return cmp.Or(configured, os.Getenv("VELERO_SCRATCH_DIR"), os.TempDir())
}

// scratch is the directory of a server's temporary files. A lock beside it marks it as in use: the kernel releases the
// lock when the process ends.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch makes a directory in base, which it creates if necessary. It removes the directories of servers that were
// killed.
func newScratch(base string, log hclog.Logger) (*scratch, error) {
	if err := os.MkdirAll(base, 0o750); err != nil {
		return nil, fmt.Errorf("create the directory of temporary files, see --scratch-dir: %w", err)
	}
	removeAbandoned(base, log)
	// The directory is made when the lock is held, so that no other server ever finds it without.
	lock, err := os.CreateTemp(base, scratchPrefix+"*.lock")
	if err != nil {
		return nil, fmt.Errorf("make a directory of temporary files, see --scratch-dir: %w", err)
	}
	s := &scratch{dir: lock.Name()[:len(lock.Name())-len(".lock")], lock: lock}
	if err := errors.Join(lockFile(lock), os.Mkdir(s.dir, 0o700)); err != nil {
		return nil, errors.Join(fmt.Errorf("make a directory of temporary files, see --scratch-dir: %w", err), s.remove())
	}
	return s, nil
}

const (
	// maxSocketPath is the length of the longest path that a socket can have (sun_path without its NUL).
	maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1
	// longestSocket is the longest path of the socket of a plugin in its directory.
	longestSocket = "plugin-dir4294967295/plugin4294967295"
)

// newSockets returns a directory for the sockets of plugins, and how to remove it: a new one in base, or base itself,
// in which sockets of killed servers stay, if paths in a new one would be too long. That is why base is not that of
// --scratch-dir.
func newSockets(base string, log hclog.Logger) (dir string, remove func(), err error) {
	s, err := newScratch(base, log)
	if err != nil {
		return "", nil, err
	}
	if len(filepath.Join(s.dir, longestSocket)) > maxSocketPath {
		s.removeOrLog(log)()
		return base, func() {}, nil
	}
	return s.dir, s.removeOrLog(log), nil
}

func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.dir), os.Remove(s.lock.Name()), s.lock.Close())
}

// removeOrLog returns a function that removes the directory. A failure is only logged.
func (s *scratch) removeOrLog(log hclog.Logger) func() {
	return func() {
		if err := s.remove(); err != nil {
			log.Warn("the directory of temporary files could not be removed", "error", err)
		}
	}
}

// newOpener returns an opener of object stores, which keeps credentials in a new directory of temporary files. end
// removes both.
func newOpener(
	c Config, reader client.Reader, host location.Host,
) (opener *location.Opener, dir string, end func(), err error) {
	scratch, err := newScratch(scratchBase(c.Options.ScratchDir), c.Log)
	if err != nil {
		return nil, "", nil, err
	}
	opener = location.NewOpener(reader, host, filepath.Join(scratch.dir, "credentials"),
		c.Log.Named("backup-storage-location"))
	return opener, scratch.dir, func() {
		if err := opener.Close(); err != nil {
			c.Log.Warn("credentials of backup storage locations could not be removed", "error", err)
		}
		scratch.removeOrLog(c.Log)()
	}, nil
}

// removeAbandoned removes the directories of servers that have not removed them. A failure is only logged.
func removeAbandoned(base string, log hclog.Logger) {
	dirs, err := filepath.Glob(filepath.Join(base, scratchPrefix+"*"))
	if err != nil {
		return // the pattern is valid unless the path of base is a strange one
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		removed, err := removeIfAbandoned(dir)
		if err != nil {
			log.Warn("the temporary files of a former server could not be removed", "directory", dir, "error", err)
		} else if removed {
			log.Info("removed the temporary files of a former server", "directory", dir)
		}
	}
}

func removeIfAbandoned(dir string) (removed bool, err error) {
	lock, err := os.OpenFile(dir+".lock", os.O_RDWR, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil {
		defer func() { _ = lock.Close() }()
		if lockFile(lock) != nil {
			return false, nil // it is in use
		}
	}
	err = os.RemoveAll(dir)
	if lock != nil && err == nil {
		err = os.Remove(lock.Name())
	}
	return err == nil, err
}

// lockFile locks a file for this process, without waiting.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
