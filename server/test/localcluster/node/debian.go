package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Packages are the Debian packages that Unpack unpacks. restic is not for nodes but for tests of the data mover; the
// releases of its author are not Go modules that can be built alone.
var Packages = []string{"restic", "containerd", "runc", "containernetworking-plugins"}

// Unpack unpacks each package into a directory of its name in dir, unless it exists. Nothing is installed. The caller
// holds a lock.
func Unpack(ctx context.Context, dir string, progress func(name string)) error {
	for _, name := range Packages {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			continue
		}
		progress(name)
		if err := unpack(ctx, dir, name); err != nil {
			return fmt.Errorf("unpacking the Debian package %s: %w", name, err)
		}
	}
	return nil
}

func unpack(ctx context.Context, dir, name string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, ".unpack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	run := func(command string, args ...string) error {
		cmd := exec.CommandContext(ctx, command, args...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
		return nil
	}
	if err := run("apt-get", "download", "-qq", name); err != nil {
		if _, missing := exec.LookPath("apt-get"); missing != nil {
			return missing
		}
		if err := run("apt-get", "update", "-qq"); err != nil { // its lists may be missing or old
			return err
		}
		if err := run("apt-get", "download", "-qq", name); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("want one archive, got %q", archives)
	}
	if err := run("dpkg-deb", "-x", archives[0], "unpacked"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, "unpacked"), filepath.Join(dir, name))
}
