//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package operations

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// lock is not implemented for systems whose locks do not end with their process.
func lock(*os.File) error {
	return fmt.Errorf("directories of operations on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
