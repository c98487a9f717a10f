package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Restic returns the path of FindRestic. Without one the test is skipped.
func Restic(t testing.TB) string {
	t.Helper()
	path, err := FindRestic()
	if err != nil {
		t.Skip(err)
	}
	return path
}

// FindRestic returns the path of the restic program that "make cluster" has unpacked, or else of the one in PATH.
func FindRestic() (string, error) {
	if cache, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(cache, "cleat", "debian", "whole", "restic", "usr", "bin", "restic")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("restic")
	if err != nil {
		return "", fmt.Errorf("there is no restic, run make cluster, or install it: %w", err)
	}
	return path, nil
}
