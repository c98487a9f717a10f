package suite

import "fmt"

// MiB is the number of bytes in a mebibyte.
const MiB = 1 << 20

// Callers is the number of concurrent calls.
const Callers = 32

// Caller returns the mark in all parts of the requests of one concurrent caller.
func Caller(i int) string { return fmt.Sprintf("caller%02d", i) }

// maxSeen is the maximum length of a description of what a plugin did, in bytes.
const maxSeen = 2000

// Clip cuts a description of what a plugin did.
func Clip(text string) string {
	if cut := len(text) - maxSeen; cut > 0 {
		return fmt.Sprintf("%s... (%d bytes more)", text[:maxSeen], cut)
	}
	return text
}
