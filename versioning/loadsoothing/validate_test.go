package loadsoothing

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusalMustHaveReasonAndBoundedWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason     string
		retryAfter time.Duration
		want       string
	}{
		"why":               {"3 loads are preparing", 0, ""},
		"why and when":      {"3 loads are preparing", time.Hour, ""},
		"no reason":         {"", time.Second, "reason is empty"},
		"two lines":         {"a\nb", 0, "want one line"},
		"a long reason":     {strings.Repeat("x", 2000), 0, "reason has 2000 bytes"},
		"a day later":       {"r", 24 * time.Hour, "retry_after is 24h0m0s, want at most 1h0m0s"},
		"in another season": {"r", math.MaxInt64, "want at most 1h0m0s"},
	} {
		err := validateRefusal(test.reason, test.retryAfter)
		if test.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.want, name)
		}
	}
}

// FuzzValidateRefusal proves that an accepted refusal can be shown in one line and has a bounded wait.
func FuzzValidateRefusal(f *testing.F) {
	f.Add("3 loads are preparing", int64(5))
	f.Add("\x00", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, reason string, retryAfter int64) {
		if validateRefusal(reason, time.Duration(retryAfter)) != nil {
			return
		}
		require.NotEmpty(t, strings.TrimSpace(reason))
		require.NotContains(t, reason, "\n")
		require.LessOrEqual(t, time.Duration(retryAfter), time.Hour)
	})
}
