// Package debian unpacks Debian packages with all that they need into directories. Nothing is installed, and it does not
// matter what the machine has installed.
package debian

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Part is a program with what it needs.
type Part struct {
	Name     string   // of its directory
	Packages []string // apt-get adds what they need
	Program  string   // below the directory; it is tried once
	Args     []string // with which it says its version and ends
}

// Dir returns the directory of all parts below the user's cache directory.
func Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory for unpacked packages, set XDG_CACHE_HOME or HOME: %w", err)
	}
	return filepath.Join(cache, "cleat", "debian", "whole"), nil
}

// Unpack unpacks a part into a directory of its name in dir, unless it is there. Its program has run there once. The
// caller holds a lock.
func (p Part) Unpack(ctx context.Context, dir string) (err error) {
	root := filepath.Join(dir, p.Name)
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, ".unpack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	unpacked := filepath.Join(work, "unpacked")
	if err := p.fetch(ctx, work, unpacked); err != nil {
		return fmt.Errorf("unpacking the Debian packages of %s: %w", p.Name, err)
	}
	if err := p.try(ctx, unpacked); err != nil {
		return err
	}
	return os.Rename(unpacked, root)
}

// fetch downloads packages into work and unpacks them.
func (p Part) fetch(ctx context.Context, work, unpacked string) error {
	// apt-get leaves out what is installed, so it is told that nothing is.
	status := filepath.Join(work, "status")
	if err := errors.Join(os.WriteFile(status, nil, 0o600), os.Mkdir(filepath.Join(work, "partial"), 0o755)); err != nil {
		return err
	}
	download := append([]string{"install", "-y", "-qq", "--no-install-recommends", "--download-only", "-o",
		"Debug::NoLocking=1", "-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + work}, p.Packages...)
	if err := run(ctx, "apt-get", download...); err != nil {
		if _, missing := exec.LookPath("apt-get"); missing != nil {
			return missing
		}
		if err := run(ctx, "apt-get", "update", "-qq"); err != nil { // its lists may be missing or old
			return err
		}
		if err := run(ctx, "apt-get", download...); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		// The loader of the machine runs the program, and works with the libc of the machine only.
		if strings.HasPrefix(filepath.Base(archive), "libc6_") {
			continue
		}
		if err := run(ctx, "dpkg-deb", "-x", archive, unpacked); err != nil {
			return err
		}
	}
	return nil
}

// BrokenError is returned for a part that was unpacked, and whose program does not run.
type BrokenError struct{ error }

func (e *BrokenError) Unwrap() error { return e.error }

// tryWithin is how long a program may take to say its version; they take less than a second.
const tryWithin = 5 * time.Minute

// try runs the program of a part. The error has its last lines.
func (p Part) try(ctx context.Context, root string) error {
	libraries, err := Libraries(root)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tryWithin, fmt.Errorf("it has not ended within %s", tryWithin))
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, p.Program), p.Args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	if out, err := cmd.CombinedOutput(); err != nil {
		return &BrokenError{fmt.Errorf("the unpacked %s does not run here: %w: %s", p.Name, cmp.Or(context.Cause(ctx), err),
			lastLines(out))}
	}
	return nil
}

func run(ctx context.Context, command string, args ...string) error {
	if out, err := exec.CommandContext(ctx, command, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, lastLines(out))
	}
	return nil
}

// lastLines returns the end of what a program has written.
func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// Libraries returns the directories below root that have shared libraries, as a list for LD_LIBRARY_PATH.
func Libraries(root string) (string, error) {
	var dirs []string
	for _, top := range []string{"lib", "usr/lib"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if dir := filepath.Dir(path); strings.Contains(filepath.Base(path), ".so") && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return strings.Join(dirs, ":"), nil
}
