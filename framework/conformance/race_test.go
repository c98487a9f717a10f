//go:build race

package conformance_test

// raced is true under the race detector. It slows down the tests of two hundred defects, and the suite that it watches is the one
// that the tests of good plugins run.
const raced = true
