//go:build !linux

package hostpath

import (
	"errors"
	"os"
)

const (
	toRead = iota
	toHold
)

// errSystem is returned for volumes of nodes that do not run Linux.
var errSystem = errors.New("volumes are opened on Linux only")

func open(string) (*os.File, error) { return nil, errSystem }

func openBelow(*os.File, string, uint64) (*os.File, error) { return nil, errSystem }

func follow(*os.File) (*os.File, error) { return nil, errSystem }

// Root returns an error.
func (v Volume) Root() (*os.Root, error) { return nil, errSystem }
