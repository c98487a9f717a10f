package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/owners"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// lockFile is the file that the lock comes from. A running server adopts a lock that the owner writes there. If
// anything else happens to the file, the lock in force stays in force; in particular, removing the file unlocks
// nothing.
type lockFile struct {
	path    string           // empty if there is none to read
	read    process.Identity // of the content that is in force
	problem string           // as reported last
}

// folders returns the real paths of the folders in which the file can change.
func (l *lockFile) folders() []string {
	if l.path == "" {
		return nil
	}
	var folders []string
	if real, err := filepath.EvalSymlinks(filepath.Dir(l.path)); err == nil {
		folders = append(folders, real)
	}
	if real, err := filepath.EvalSymlinks(l.path); err == nil {
		folders = append(folders, filepath.Dir(real))
	}
	return folders
}

// identity identifies the current content of the file; it is zero if there is no file.
func (l *lockFile) identity() process.Identity {
	if l.path == "" {
		return process.Identity{}
	}
	info, err := os.Stat(l.path)
	if err != nil {
		return process.Identity{}
	}
	return process.IdentityOf(info)
}

// readLock puts the current content of the lock file in force. problem is the reason if that is impossible, and empty
// otherwise.
func (d *Directory) readLock() (problem string) {
	l := &d.lock
	if l.path == "" {
		return ""
	}
	current := d.Lock()
	next, seen, err := l.readAgain(current)
	switch {
	case errors.Is(err, fs.ErrNotExist) && current == nil:
	case errors.Is(err, fs.ErrNotExist):
		problem = `the lock was removed; the server keeps to what it said, write it again with "cleat plugin lock"`
	case err != nil && current == nil:
		problem = fmt.Sprintf("the lock is not used, the server has none: %v", err)
	case err != nil:
		problem = fmt.Sprintf("the lock is not used, the server keeps the last lock that it accepted: %v", err)
	case next != current:
		d.log.Info("the lock has changed and is in force", "lock", l.path, "files", len(next.Plugins))
		d.relock(next)
		l.read = seen
	default:
		if l.problem != "" {
			d.log.Info("the lock is again what is in force", "lock", l.path)
		}
		l.read = seen
	}
	l.problem = problem
	return problem
}

// readAgain returns the lock in the file and the identity of the file. It returns current if that is equal.
func (l *lockFile) readAgain(current *pluginlock.Lock) (*pluginlock.Lock, process.Identity, error) {
	switch there, err := os.Stat(l.path); {
	case err != nil:
		return nil, process.Identity{}, err
	case !there.Mode().IsRegular(): // opening a pipe would block
		return nil, process.Identity{}, fmt.Errorf("it is not a regular file but %s", there.Mode().Type())
	}
	file, way, err := owners.Open(l.path)
	if err != nil {
		return nil, process.Identity{}, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return nil, process.Identity{}, err
	}
	seen := process.IdentityOf(before)
	if seen == l.read {
		return current, seen, nil
	}
	next, err := pluginlock.ReadFrom(file, l.path)
	if err != nil {
		return nil, seen, err
	}
	if reflect.DeepEqual(next, current) {
		return current, seen, nil
	}
	return next, seen, way.Check(isReadOnly)
}

// isReadOnly reports whether a path is on a read-only file system, as in volumes of ConfigMaps and Secrets. Owners and
// modes do not matter there.
func isReadOnly(step owners.Step) bool { return step.ReadOnly }

// checkFirst returns an error if others can change the lock with which the host starts, because they could decide what
// runs. On a volume of the pod, which containers share, it only logs a warning.
func (l *lockFile) checkFirst(trust *Trust, log hclog.Logger) error {
	file, way, err := owners.Open(l.path)
	if err != nil {
		return nil // the last valid lock is in force, and the first look reports the error
	}
	defer file.Close()
	if err := way.Check(func(s owners.Step) bool { return isReadOnly(s) || trust.inVolume(s) }); err != nil {
		return fmt.Errorf("the lock does not hold: %w", err)
	}
	if err := way.Check(isReadOnly); err != nil {
		log.Warn("everything that shares this volume of the pod can change the lock, and so what runs; keep the lock in a "+
			"ConfigMap",
			"lock", l.path, "error", err)
	}
	return nil
}
