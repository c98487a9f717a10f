//go:build !linux

package program

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func usage(int) (Usage, bool) { return Usage{}, false }

// passwordFile returns the path of a private file with a password.
func passwordFile(password []byte) (path string, forget func(), err error) {
	if err := checkPassword(password); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "cleat-restic-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "password")
	if err := os.WriteFile(path, password, 0o600); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return path, func() { _ = os.RemoveAll(dir) }, nil
}
