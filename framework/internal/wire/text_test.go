package wire

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestLineMustBeOneNonEmptyLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"waits for nightly":              "",
		strings.Repeat("x", 1024):        "",
		"ждёт":                           "",
		"":                               "reason is empty",
		" \t":                            "reason is empty",
		strings.Repeat("x", 1025):        "reason has 1025 bytes, want at most 1024",
		"two\nlines":                     `reason "two\nlines" has control characters, want one line`,
		strings.Repeat("x", 50) + "\x00": `reason "` + strings.Repeat("x", 40) + `..." has control characters`,
	} {
		err := Line("reason", text)
		if want == "" {
			require.NoError(t, err, "%q", text)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestTimeoutMustBeInRange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		received *durationpb.Duration
		want     time.Duration
		refused  string
	}{
		"absent":   {nil, 0, ""},
		"zero":     {durationpb.New(0), 0, ""},
		"some":     {durationpb.New(90 * time.Second), 90 * time.Second, ""},
		"negative": {durationpb.New(-time.Second), 0, "retry is -1s, want none that is negative"},
		"none":     {&durationpb.Duration{Seconds: 1, Nanos: -1}, 0, "retry is not a duration"},
		"too long": {&durationpb.Duration{Seconds: math.MaxInt64}, 0, "retry is not a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ReceivedTimeout("retry", test.received)
			require.Equal(t, test.want, got)
			if test.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.refused)
			}
		})
	}
}
