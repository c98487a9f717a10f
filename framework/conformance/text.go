package conformance

import (
	"fmt"
	"strings"
	"unicode"
)

// checkLine checks that a text for users is a single line that is not empty.
func checkLine(field, text string) error {
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
