package suite

import (
	"fmt"
	"strings"
	"unicode"
)

// MiB is the number of bytes in a mebibyte.
const MiB = 1 << 20

// Callers is the number of concurrent calls.
const Callers = 32

// Caller returns the mark in all parts of the requests of one concurrent caller.
func Caller(i int) string { return fmt.Sprintf("caller%02d", i) }

// CheckLine checks that a text for users is a single line that is not empty.
func CheckLine(field, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s is empty", field)
	case len(text) > 1024:
		return fmt.Errorf("%s has %d bytes, more than 1024", field, len(text))
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s %.100q has control characters", field, text)
	}
	return nil
}

// maxSeen is the maximum length of a description of what a plugin did, in bytes.
const maxSeen = 2000

// Clip cuts a description of what a plugin did.
func Clip(text string) string {
	if cut := len(text) - maxSeen; cut > 0 {
		return fmt.Sprintf("%s... (%d bytes more)", text[:maxSeen], cut)
	}
	return text
}
