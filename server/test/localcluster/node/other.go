//go:build !linux

package node

import (
	"context"
	"errors"
	"syscall"
)

var covered []string

// Attributes returns the attributes unchanged.
func Attributes(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }

// Main returns an error: there are nodes on Linux only.
func Main(context.Context, string) error { return errors.New("a node needs Linux") }

// groupSuffix ends the names of control groups.
const groupSuffix = ".node"

// Sweep does nothing.
func Sweep() error { return nil }

// Remove does nothing.
func Remove(string) error { return nil }
