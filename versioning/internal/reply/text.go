package reply

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// maxLine is the maximum length of a text for people in bytes: it is shown in a status, an event and a table.
const maxLine = 1024

// Line checks a text for people in field of a reply: one line, not empty.
func Line(field, received string) error {
	switch {
	case strings.TrimSpace(received) == "":
		return fmt.Errorf("%s is empty", field)
	case len(received) > maxLine:
		return fmt.Errorf("%s has %d bytes, want at most %d", field, len(received), maxLine)
	case strings.ContainsFunc(received, unicode.IsControl):
		return fmt.Errorf("%s %q has control characters, want one line", field, Clip(received))
	}
	return nil
}

// Clip returns received, shortened for an error message.
func Clip(received string) string { return clip([]byte(received)) }

// Config returns the configuration of a policy in the form of a request: an empty object when there is none.
func Config(config []byte) []byte {
	if len(config) == 0 {
		return []byte("{}")
	}
	return config
}

// Int32 returns a count in the form of a request. It is clamped to the range of int32.
func Int32(count int) int32 {
	return int32(max(math.MinInt32, min(count, math.MaxInt32)))
}
