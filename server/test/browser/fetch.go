package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// packages are what the browser is made of. apt-get adds what they need and the machine does not have.
var packages = []string{"chromium-headless-shell", "fonts-dejavu-core"}

// chromium is an unpacked browser.
type chromium struct {
	program   string
	libraries string // a list of directories
	fonts     string // a file that describes them
}

// findChromium returns the browser in the cache, and unpacks it first if it is not there. Nothing is installed.
func findChromium(ctx context.Context) (chromium, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return chromium{}, err
	}
	cache = filepath.Join(cache, "cleat", "debian")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return chromium{}, err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "chromium.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return chromium{}, err
	}
	defer lock.Close() //nolint:errcheck // nothing was written; it ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return chromium{}, err
	}
	root := filepath.Join(cache, "chromium")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		if err := unpack(ctx, root); err != nil {
			return chromium{}, fmt.Errorf("unpack the Debian packages of Chromium: %w", err)
		}
	}
	found := chromium{program: filepath.Join(root, "usr/lib/chromium/chromium-headless-shell")}
	if _, err := os.Stat(found.program); err != nil {
		return chromium{}, err
	}
	if found.libraries, err = libraries(root); err != nil {
		return chromium{}, err
	}
	found.fonts, err = fonts(root, cache)
	return found, err
}

// describe is what fontconfig reads: the fonts of the package and no others, so that pages look the same everywhere.
const describe = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
	<dir>%s</dir>
	<cachedir>%s</cachedir>
	<alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
	<alias binding="same"><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
	<match target="pattern"><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
	<match target="font">
		<edit name="antialias" mode="assign"><bool>true</bool></edit>
		<edit name="hinting" mode="assign"><bool>false</bool></edit>
		<edit name="rgba" mode="assign"><const>none</const></edit>
	</match>
</fontconfig>
`

// fonts writes the description of the fonts of an unpacked browser.
func fonts(root, cache string) (string, error) {
	path := filepath.Join(cache, "fonts.conf")
	text := fmt.Sprintf(describe, filepath.Join(root, "usr/share/fonts/truetype/dejavu"),
		filepath.Join(cache, "fontconfig"))
	if was, err := os.ReadFile(path); err == nil && string(was) == text {
		return path, nil
	}
	return path, os.WriteFile(path, []byte(text), 0o600) // nobody else writes: the lock is held
}

// libraries returns the directories below root that have shared libraries, as a list for the loader.
func libraries(root string) (string, error) {
	var dirs []string
	err := filepath.WalkDir(filepath.Join(root, "usr", "lib"), func(path string, _ fs.DirEntry, err error) error {
		if dir := filepath.Dir(path); strings.Contains(filepath.Base(path), ".so") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return err
	})
	return strings.Join(dirs, ":"), err
}

// unpack downloads the packages, with what they need, and unpacks them into root.
func unpack(ctx context.Context, root string) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(root), ".unpack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	run := func(command string, args ...string) error {
		if out, err := exec.CommandContext(ctx, command, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
		return nil
	}
	if err := os.Mkdir(filepath.Join(work, "partial"), 0o755); err != nil {
		return err
	}
	download := append([]string{"install", "-y", "-qq", "--no-install-recommends", "--download-only", "--reinstall", "-o",
		"Debug::NoLocking=1", "-o", "Dir::Cache::archives=" + work}, packages...)
	if err := run("apt-get", download...); err != nil {
		if _, missing := exec.LookPath("apt-get"); missing != nil {
			return missing
		}
		if err := run("apt-get", "update", "-qq"); err != nil { // its lists may be missing or old
			return err
		}
		if err := run("apt-get", download...); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := run("dpkg-deb", "-x", archive, filepath.Join(work, "unpacked")); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(work, "unpacked"), root)
}
