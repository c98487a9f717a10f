package framework

import "runtime"

// CallersForTest is the stack of its caller, as errors of other modules record it.
func CallersForTest() []uintptr {
	pcs := make([]uintptr, maxFrames)
	return pcs[:runtime.Callers(2, pcs)]
}
