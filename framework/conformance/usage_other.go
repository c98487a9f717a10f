//go:build !linux

package conformance

import "errors"

// usageOf is skipped: the resources of a process can be read on Linux only.
func usageOf(int) (usage, error) {
	return usage{}, errors.ErrUnsupported
}

// onlyDead returns false: the states of processes can be read on Linux only.
func onlyDead(int) bool { return false }
