//go:build !race

package conformance_test

// raced is true under the race detector.
const raced = false
