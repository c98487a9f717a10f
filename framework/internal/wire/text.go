package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
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
func Clip(received string) string {
	const enough = 40
	if len(received) > enough {
		return strings.ToValidUTF8(received[:enough], "") + "..."
	}
	return received
}

// Int32 returns a count in its wire form. It is clamped to the range of int32.
func Int32(count int) int32 {
	return int32(max(math.MinInt32, min(count, math.MaxInt32)))
}

// ReceivedTimeout checks a time in field of a reply. None and zero leave the choice to the host.
func ReceivedTimeout(field string, received *durationpb.Duration) (time.Duration, error) {
	if received == nil {
		return 0, nil
	}
	if err := received.CheckValid(); err != nil {
		return 0, fmt.Errorf("%s is not a duration: %w", field, err)
	}
	if timeout := received.AsDuration(); timeout >= 0 {
		return timeout, nil
	}
	return 0, fmt.Errorf("%s is %s, want none that is negative", field, received.AsDuration())
}
