//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package operations

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// tryLock is for systems whose locks do not end with their process.
func tryLock(*os.File) (taken bool, err error) {
	return false, fmt.Errorf("directories of operations on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
