package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleat-dev/cleat/server/test/localcluster/debian"
)

// parts returns what is unpacked from Debian packages. restic is not for nodes but for tests of the data mover; the
// releases of its author are not Go modules that can be built alone.
func parts() []debian.Part {
	part := func(name, program string, args ...string) debian.Part {
		return debian.Part{Name: name, Packages: []string{name}, Program: program, Args: args}
	}
	return []debian.Part{
		part("restic", "usr/bin/restic", "version"), part("containerd", "usr/bin/containerd", "--version"),
		part("runc", "usr/sbin/runc", "--version"), part("containernetworking-plugins", "usr/lib/cni/bridge"),
	}
}

// Unpack unpacks each part into a directory of its name in dir, unless it exists. The caller holds a lock.
func Unpack(ctx context.Context, dir string, progress func(name string)) error {
	for _, part := range parts() {
		if _, err := os.Stat(filepath.Join(dir, part.Name)); err == nil {
			continue
		}
		progress(part.Name)
		if err := part.Unpack(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// libraries returns the directories with the libraries of all parts, as a list for LD_LIBRARY_PATH.
func libraries(dir string) (string, error) {
	var all []string
	for _, part := range parts() {
		list, err := debian.Libraries(filepath.Join(dir, part.Name))
		if err != nil {
			return "", err
		}
		all = append(all, list)
	}
	return strings.Trim(strings.Join(all, ":"), ":"), nil
}
