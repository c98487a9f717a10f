//go:build !linux

package spool

import "os"

// freeSpace reports that the free space is not known.
func freeSpace(*os.File) (int64, bool) { return 0, false }
