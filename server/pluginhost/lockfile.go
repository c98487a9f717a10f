package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/server/pluginlock"
)

// lockFile is where the lock comes from. A running server takes over what is written there, whole and by nobody but
// the owner. Whatever else happens to the file, the lock that is in force stays in force; above all, to remove it
// unlocks nothing. It is the scanner's.
type lockFile struct {
	path string           // empty: there is none to read
	read process.Identity // when it said what is in force
	told string           // what was said of it last
}

// folders are the real paths of those in which it can change.
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

// readLock makes the lock what its file says by now. problem is why it cannot, in the words for the operator, or empty;
// unfinished tells that somebody may still be writing it. The caller has the turn of the scanner.
func (h *Host) readLock(now time.Time) (problem string, unfinished bool) {
	l := &h.lockFile
	if l.path == "" {
		return "", false
	}
	next, seen, err := l.readAgain(h.trust.lock, func(file located) bool { return h.scan.settled(file, now) })
	if errors.Is(err, errUnsettled) {
		return l.told, true
	}
	delete(h.scan.looks, l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && h.trust.lock == nil:
	case errors.Is(err, fs.ErrNotExist):
		problem = `the lock is gone; the server goes on with what it said, write it again with "cleat plugin lock"`
	case err != nil && h.trust.lock == nil:
		problem = fmt.Sprintf("the lock is not used, the server goes on without one: %v", err)
	case err != nil:
		problem = fmt.Sprintf("the lock is not used, the server goes on with what it said before: %v", err)
	case next != h.trust.lock:
		h.log.Info("the lock has changed, it is taken over", "lock", l.path, "files", len(next.Plugins))
		h.relock(next)
		l.read = seen
	default:
		if l.told != "" {
			h.log.Info("the lock is what it was", "lock", l.path)
		}
		l.read = seen
	}
	l.told = problem
	return problem, false
}

var errUnsettled = errors.New("somebody may still be writing it")

// readAgain gives what the file says and what it was then, or current if that is the same.
func (l *lockFile) readAgain(current *pluginlock.Lock, settled func(located) bool) (*pluginlock.Lock, process.Identity, error) {
	switch there, err := os.Stat(l.path); {
	case err != nil:
		return nil, process.Identity{}, err
	case !there.Mode().IsRegular(): // a pipe would be waited for
		return nil, process.Identity{}, fmt.Errorf("it is no regular file but %s", there.Mode().Type())
	}
	file, err := os.Open(l.path)
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
	after, statErr := file.Stat()
	switch {
	case statErr != nil || process.IdentityOf(after) != seen:
		return nil, seen, errUnsettled
	case err == nil && reflect.DeepEqual(next, current):
		return current, seen, nil
	case !settled(located{path: l.path, identity: seen}): // half a lock may well be a lock
		return nil, seen, errUnsettled
	case err != nil:
		return nil, seen, err
	}
	return next, seen, l.writers(file)
}

// writers finds who else than the owner can change the lock, which is file.
func (l *lockFile) writers(file *os.File) error {
	folder := filepath.Dir(l.path)
	if isReadOnly(folder) && isReadOnly(l.path) {
		return nil
	}
	return otherWriters(file, l.path, []string{folder})
}

// begin looks at the lock with which the host begins: who can change it decides what runs. On a volume of the pod that
// was decided with the pod.
func (l *lockFile) begin(volume bool, log hclog.Logger) error {
	file, err := os.Open(l.path)
	if err != nil {
		return nil // what was read of it is in force, and the first look tells of it
	}
	defer file.Close()
	switch err := l.writers(file); {
	case err != nil && volume:
		log.Warn("whatever shares this volume of the pod can change the lock, and so what runs; keep it in a ConfigMap",
			"lock", l.path, "error", err)
	case err != nil:
		return fmt.Errorf("the lock does not hold: %w", err)
	}
	return nil
}

// relock puts a lock in force for what is looked at from now on. Operations that have begun keep theirs, as they keep their plugins.
func (h *Host) relock(lock *pluginlock.Lock) {
	next := *h.trust
	next.lock = lock
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trust = &next
}
