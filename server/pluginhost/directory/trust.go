package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/server/pluginlock"
	"github.com/cleat-dev/cleat/versioning"
)

// Trust decides which binaries of the plugin directory may run. With a lock, these are the ones that it names, with the
// content that it names; it does not matter who can write to them. Without a lock, these are the ones that only their owner
// can change.
type Trust struct {
	dir    string // absolute
	lock   *pluginlock.Lock
	volume bool // dir is a volume of the pod, so that the pod decides who can write to it
}

// newTrust finds out who can write to the plugin directory.
func newTrust(dir string, lock *pluginlock.Lock, isVolume func(dir string) bool, log hclog.Logger) *Trust {
	t := &Trust{dir: absolute(dir), lock: lock}
	info, err := os.Stat(t.dir)
	if err != nil || !isVolume(t.dir) {
		return t
	}
	t.volume = true
	if lock != nil || !othersWrite(info) {
		return t
	}
	log.Warn("everything that shares this volume of the pod can change the plugins; use a lock to pin what may run",
		"dir", t.dir, "mode", info.Mode(), "lock", "cleat plugin lock")
	return t
}

// Check is called before each start of a binary. The error says why it must not run and what to do. verify is to be called
// when it runs, and again before its first call; it may be nil.
func (t *Trust) Check(b *process.Binary) (verify func() error, err error) {
	if t.lock == nil {
		if err := t.checkWriters(b); err != nil {
			return nil, &process.DistrustError{Reason: err}
		}
		return nil, nil
	}
	before, err := b.Now()
	if err != nil {
		return nil, err
	}
	if err := t.checkSum(b); err != nil {
		return nil, err
	}
	return func() error {
		if b.Script() && !b.StillThere() { // an interpreter that resolves links has read the other file
			return &process.DistrustError{Reason: errors.New("it was killed before its first call, because another file took its place while it was started")}
		}
		if now, err := b.Now(); err == nil && now == before {
			return nil
		}
		// Replacing the file changes its times too. Nothing can write to a file that runs, so this check is final.
		if err := t.checkSum(b); err != nil {
			return fmt.Errorf("it was killed before its first call, because it was changed while it was started: %w", err)
		}
		return nil
	}, nil
}

// checkSum returns an error if the content of the file differs from the lock.
func (t *Trust) checkSum(b *process.Binary) error {
	sum, err := b.Sum()
	if err != nil {
		return err
	}
	if err := t.lock.Check(t.relative(b.Path), sum); err != nil {
		return &process.DistrustError{Reason: err}
	}
	return nil
}

// CheckProvides returns an error if what a binary lists differs from the lock.
func (t *Trust) CheckProvides(path string, listed []versioning.Listed) error {
	if t.lock == nil {
		return nil
	}
	plugin, _ := t.lock.Plugin(t.relative(path)) // found, or it would not have been started
	if err := plugin.CheckProvides(listed); err != nil {
		return &process.DistrustError{Reason: err}
	}
	return nil
}

// missing returns a problem for each plugin of the lock that is not among the files found.
func (t *Trust) missing(files found) []Problem {
	if t.lock == nil {
		return nil
	}
	var there []string
	for _, file := range files.files {
		there = append(there, t.relative(file.Path))
	}
	var problems []Problem
	for _, plugin := range t.lock.Missing(there) {
		path := filepath.Join(t.dir, filepath.FromSlash(plugin.Path))
		reason := pluginlock.MissingReason
		if why, omitted := files.omitted[path]; omitted {
			reason = "it is in the lock, but left out: " + why
		}
		problems = append(problems, Problem{Path: path, Reason: reason})
	}
	return problems
}

// Locked reports whether a lock is in force.
func (t *Trust) Locked() bool { return t.lock != nil }

// relative returns the path in the form that locks use.
func (t *Trust) relative(path string) string {
	relative, err := filepath.Rel(t.dir, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(relative)
}

// checkWriters returns an error if others than its owner can replace or change the binary, by the mode of the file, of each
// folder between it and the plugin directory, and of the folder that a link leads to.
func (t *Trust) checkWriters(b *process.Binary) error {
	if t.volume {
		return nil
	}
	var folders []string
	for folder := filepath.Dir(b.Path); ; folder = filepath.Dir(folder) {
		folders = append(folders, folder)
		if !strings.HasPrefix(folder, t.dir+string(filepath.Separator)) {
			break
		}
	}
	if err := otherWriters(b.File, b.Path, folders); err != nil {
		return fmt.Errorf(`%w, or pin what may run with "cleat plugin lock"`, err)
	}
	return nil
}

// otherWriters returns an error if others than their owner can change the open file that path leads to, or put another one
// into one of the folders or into the one that a link leads to.
func otherWriters(file *os.File, path string, folders []string) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if othersWrite(info) {
		return writersError("file", path, info)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		folders = append(folders, filepath.Dir(real))
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err == nil && othersWrite(info) { // a folder that was removed cannot be written to
			return writersError("folder", folder, info)
		}
	}
	return nil
}

func othersWrite(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

func writersError(what, path string, info fs.FileInfo) error {
	return fmt.Errorf(`others than its owner can change the %s %s, its mode is %s; run "chmod go-w %s"`, what, path, info.Mode(), path)
}

// isPodVolume reports whether dir is a volume of the pod in which the server runs. An emptyDir is writable for everything in
// the pod, and "velero install" keeps the plugins in one.
func isPodVolume(dir string) bool {
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" && isMountPoint(dir)
}
