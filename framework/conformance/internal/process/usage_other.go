//go:build !linux

package process

import "errors"

// UsageOf is not supported: the resources of a process can be read on Linux only.
func UsageOf(int) (Usage, error) {
	return Usage{}, errors.ErrUnsupported
}

// onlyDead returns false: the states of processes can be read on Linux only.
func onlyDead(int) bool { return false }
