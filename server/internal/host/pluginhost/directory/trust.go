package directory

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/owners"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/versioning"
)

// Trust decides which binaries of the plugin directory may run: binaries that only root and the server's user can
// change and, if there is a lock, that have the path and the content of one of its entries. In a volume of the pod,
// other containers may write; there only the lock decides.
type Trust struct {
	dir    string // absolute
	lock   *pluginlock.Lock
	named  bool   // files that others can change may run, because the user has named dir
	volume string // what dir leads to, if that is a volume of the pod; empty otherwise
}

// newTrust finds out who can write to the plugin directory.
func newTrust(cfg Config, isVolume func(dir string) bool) *Trust {
	t := &Trust{dir: absolute(cfg.Path), lock: cfg.Lock, named: cfg.Named}
	info, err := os.Stat(t.dir)
	if err != nil || !isVolume(t.dir) {
		return t
	}
	real, err := filepath.EvalSymlinks(t.dir)
	if err != nil {
		return t
	}
	t.volume = real
	if cfg.Lock != nil || info.Mode().Perm()&0o022 == 0 {
		return t
	}
	cfg.Log.Warn("everything that shares this volume of the pod can change the plugins; use a lock to pin what may run",
		"dir", t.dir, "mode", info.Mode(), "lock", "cleat plugin lock")
	return t
}

// Check is called before each start of a binary and returns the binary to run or, with a lock, a sealed copy of it. The
// error has the reason why it must not run, and the remedy.
func (t *Trust) Check(b *process.Binary) (*process.Binary, error) {
	sum, err := t.judge(b)
	if err != nil || t.lock == nil {
		return b, err
	}
	return b.Seal(sum)
}

// Judge returns the error that Check would return for a binary as it is now.
func (t *Trust) Judge(b *process.Binary) error {
	_, err := t.judge(b)
	return err
}

// judge returns the sum of a binary that may run, if there is a lock.
func (t *Trust) judge(b *process.Binary) (sum string, err error) {
	if t.lock != nil {
		if sum, err = b.Sum(); err != nil {
			return "", err
		}
		if err := t.lock.Check(t.relative(b.Path), sum); err != nil {
			return "", &process.DistrustError{Reason: err}
		}
	}
	if t.named {
		return sum, nil
	}
	way, err := b.Way()
	if err != nil {
		return "", err
	}
	if err := way.Check(t.inVolume); err != nil {
		return "", &process.DistrustError{Reason: err}
	}
	return sum, b.CheckInterpreter()
}

// inVolume reports whether a step is in a volume of the pod, where anything in the pod may be meant to write.
func (t *Trust) inVolume(step owners.Step) bool {
	return t.volume != "" && (step.Path == t.volume || strings.HasPrefix(step.Path, t.volume+string(filepath.Separator)))
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

// isPodVolume reports whether dir is a volume of the pod in which the server runs. An emptyDir is writable for
// everything in the pod, and "velero install" keeps the plugins in one.
func isPodVolume(dir string) bool {
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" && isMountPoint(dir)
}
