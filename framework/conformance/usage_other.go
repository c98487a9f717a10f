//go:build !linux

package conformance

// usageOf is what a process holds; it can be seen on Linux only.
func usageOf(int) (usage, error) {
	return usage{}, skip("what a process holds can be seen on Linux only")
}
