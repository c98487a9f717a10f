package v1_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
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
		err := (&lsv1.AdmitOutput{Reason: test.reason, RetryAfter: test.retryAfter}).Validate()
		if test.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.want, name)
		}
	}
}

// FuzzValidate proves that an accepted refusal can be shown in one line and has a bounded wait.
func FuzzValidate(f *testing.F) {
	f.Add("3 loads are preparing", int64(5))
	f.Add("\x00", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, reason string, retryAfter int64) {
		refused := &lsv1.AdmitOutput{Reason: reason, RetryAfter: time.Duration(retryAfter)}
		if refused.Validate() != nil {
			return
		}
		require.NotEmpty(t, strings.TrimSpace(reason))
		require.NotContains(t, reason, "\n")
		require.LessOrEqual(t, time.Duration(retryAfter), time.Hour)
	})
}
