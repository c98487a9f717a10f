//go:build !linux

package conformance

// usageOf is what a process holds; it can be seen on Linux only.
func usageOf(int) (usage, error) {
	return usage{}, skip("what a process holds can be seen on Linux only")
}

// onlyDead says whether all that is left of a group are processes that have ended; nobody knows.
func onlyDead(int) bool { return false }
