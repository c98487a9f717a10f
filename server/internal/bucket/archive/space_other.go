//go:build !linux

package archive

import "os"

// FreeSpace reports that the free space is not known.
func FreeSpace(*os.File) (int64, bool) { return 0, false }
