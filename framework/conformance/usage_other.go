//go:build !linux

package conformance

// usageOf is skipped: the resources of a process can be read on Linux only.
func usageOf(int) (usage, error) {
	return usage{}, skip("the resources of a process can be read on Linux only")
}

// onlyDead returns false: the states of processes can be read on Linux only.
func onlyDead(int) bool { return false }
