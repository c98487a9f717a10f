package process

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

func TestBackOffDoublesUntilCircuitOpens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := breaker{policy: Restart{Backoff: time.Second, Threshold: 10, CoolDown: time.Minute}.withDefaults()}
	boom := errors.New("boom")
	for i, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 64, 100} {
		b.failed(now, 0, boom)
		wait, err := b.next(now, "/plugins/p")
		require.NoError(t, err)
		require.Equal(t, want*time.Second, wait, "after failure %d", i+1)
	}
	for _, coolDown := range []time.Duration{1, 2, 4, 8, 10, 10} {
		b.failed(now, 0, boom)
		_, err := b.next(now, "/plugins/p")
		var open *calls.OutOfServiceError
		require.ErrorAs(t, err, &open)
		require.ErrorIs(t, err, boom)
		require.Equal(t, now.Add(coolDown*time.Minute), open.Until)
		now = now.Add(coolDown * time.Minute)
		wait, err := b.next(now, "/plugins/p")
		require.NoError(t, err, "one start is tried after the cool-down")
		require.Zero(t, wait)
	}
	b.worked()
	b.failed(now, 0, boom)
	wait, err := b.next(now, "/plugins/p")
	require.NoError(t, err)
	require.Zero(t, wait, "a success resets the back-off")
}

func TestLongUptimeResetsFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := breaker{policy: Restart{}.withDefaults()}
	for range 100 {
		b.failed(now, healthyAfter, errors.New("boom"))
	}
	wait, err := b.next(now, "/plugins/p")
	require.NoError(t, err)
	require.Zero(t, wait)
}

func TestJitterShortensWaitByUpToHalf(t *testing.T) {
	t.Parallel()
	for jitter, want := range map[float64]time.Duration{0: 8 * time.Second, 0.5: 6 * time.Second,
		0.999: 4004 * time.Millisecond} {
		b := breaker{policy: Restart{Backoff: 8 * time.Second, Jitter: func() float64 { return jitter }}.withDefaults()}
		b.failures = 2
		require.Equal(t, want, b.wait())
	}
}
