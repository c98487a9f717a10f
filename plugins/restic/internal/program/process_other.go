//go:build !linux

package program

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

func usage(int) (Usage, bool) { return Usage{}, false }
