package directory

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// Config holds the path of the plugin directory and the lock for it.
type Config struct {
	// Path is the plugin directory. It may be missing; empty means that there is none.
	Path string
	// Lock lists the binaries that may run. In any case, only binaries that no user but root and the user of this process
	// can change may run. nil means that there is no lock.
	Lock *pluginlock.Lock
	// Named is set if the user has named Path and its content. Then a binary may run although others can change it.
	Named bool
	// LockPath is the file that Lock was read from, or from which one is to be read once it exists. Empty: Lock stays as
	// it is.
	LockPath string
	// IsVolume reports whether a directory is a volume of the pod in which the server runs; nil is the real test.
	IsVolume func(dir string) bool
	Log      hclog.Logger
}

// Directory is a plugin directory with its lock.
type Directory struct {
	path    string
	log     hclog.Logger
	lock    lockFile
	omitted map[string]string // by the last look
	missing bool              // at the last look

	mu      sync.Mutex
	trust   *Trust
	folders []string // in which something can change
}

// Open returns the directory without looking at it. It returns an error if others than root and the user of this
// process can change the lock.
func Open(cfg Config) (*Directory, error) {
	isVolume := isPodVolume
	if cfg.IsVolume != nil {
		isVolume = cfg.IsVolume
	}
	d := &Directory{path: cfg.Path, log: cfg.Log, trust: newTrust(cfg, isVolume)}
	if cfg.LockPath != "" {
		d.lock.path = absolute(cfg.LockPath)
	}
	if cfg.Lock != nil && cfg.LockPath != "" {
		if err := d.lock.checkFirst(d.trust, d.log); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Seen is the result of a look at the directory.
type Seen struct {
	Files []File
	// Problems are paths that are not plugin files but have to be shown: a plugin of the lock that is missing, or the
	// lock.
	Problems []Problem
	// Trust decides which of the files may run.
	Trust *Trust
}

// Problem is a path and the problem found there.
type Problem struct{ Path, Reason string }

// Look finds the files that are in the directory now, and takes over a lock that has changed. It is not called
// concurrently.
func (d *Directory) Look() (Seen, error) {
	if d.path == "" {
		return Seen{Trust: d.Trust()}, nil
	}
	var files found
	var problem string
	for range maxReads { // files and their lock can be replaced together, by a link
		before := d.lock.identity()
		problem = d.readLock()
		var err error
		if files, err = find(d.path); err != nil {
			return Seen{}, err
		}
		if d.lock.identity() == before {
			break
		}
	}
	d.logOmitted(files)
	seen := Seen{Files: files.files, Problems: d.Trust().missing(files), Trust: d.Trust()}
	if problem != "" {
		seen.Problems = append(seen.Problems, Problem{Path: d.lock.path, Reason: problem})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.folders = slices.Compact(slices.Sorted(slices.Values(append(files.folders, d.lock.folders()...))))
	return seen, nil
}

// maxReads bounds how often one look starts again because the lock changes meanwhile.
const maxReads = 10

// Trust returns the rules for which files may run, as of the last look.
func (d *Directory) Trust() *Trust {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trust
}

// Lock returns the lock in force, nil if there is none: the configured one, or the last valid content of its file.
func (d *Directory) Lock() *pluginlock.Lock { return d.Trust().lock }

// relock puts a lock in force for runs that begin from now on. Other runs keep their lock, as they keep their plugins.
func (d *Directory) relock(lock *pluginlock.Lock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := *d.trust
	next.lock = lock
	d.trust = &next
}

// logOmitted logs the files that are left out since the last look.
func (d *Directory) logOmitted(files found) {
	if files.missing && !d.missing {
		d.log.Info("there is no plugin directory, so there are built-in plugins only", "dir", d.path)
	}
	for path, reason := range files.omitted {
		if d.omitted[path] != reason {
			d.log.Warn("not a plugin, left out", "path", path, "reason", reason)
		}
	}
	d.missing, d.omitted = files.missing, files.omitted
}

// absolute returns path unchanged where the working directory is not known.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}
