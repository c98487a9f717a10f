package pace

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clock is the time of a model.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// work lets a limit work for a while against a server with the given speed, in tasks a second, for a number of tasks.
// It returns the number of tasks that have ended.
func (c *clock) work(l *Limit, r *rand.Rand, d time.Duration, speed func(atOnce int) float64) int {
	ended := 0
	for end := c.Add(d); c.Before(end); ended++ {
		l.active++ // one is at work, and others wait
		l.scarce = true
		noise := 1 + (r.Float64()-0.5)/2
		c.Time = c.Add(time.Duration(float64(time.Second) / speed(l.limit) * noise))
		l.Leave(true)
	}
	return ended
}

// saturating returns the speed of a server that does at most so many tasks a second, and needs latency for each.
func saturating(most float64, latency time.Duration) func(int) float64 {
	return func(atOnce int) float64 { return min(most, float64(atOnce)/latency.Seconds()) }
}

func TestLimitFindsTheSpeedOfAServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		speed    func(int) float64
		low, top int // limits after a while
	}{
		"few are enough":        {saturating(1000, 2*time.Millisecond), 1, 16},
		"many are needed":       {saturating(1000, 40*time.Millisecond), 36, 64},
		"more than the most":    {saturating(10_000, 100*time.Millisecond), 54, 64},
		"more make it slower":   {func(n int) float64 { return 1000 / (1 + float64(max(0, n-20))/20) }, 1, 30},
		"one at a time":         {func(int) float64 { return 300 }, 1, 16},
		"it is slow but steady": {saturating(50, 200*time.Millisecond), 6, 36},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				c := &clock{time.Unix(0, 0)}
				l := newAdaptive(c.now)
				r := rand.New(rand.NewPCG(seed, 1))
				c.work(l, r, 20*time.Second, test.speed)
				best := 0.0
				for n := 1; n <= Max; n++ {
					best = max(best, test.speed(n))
				}
				const during = time.Minute
				require.GreaterOrEqual(t, float64(c.work(l, r, during, test.speed)), best*during.Seconds()*0.8, "seed %d", seed)
				settled := l.limit
				if l.kept != 0 {
					settled = l.kept
				}
				require.GreaterOrEqual(t, settled, test.low, "seed %d", seed)
				require.LessOrEqual(t, settled, test.top, "seed %d", seed)
			}
		})
	}
}

func TestLimitFallsWhenTheServerIsTooBusy(t *testing.T) {
	t.Parallel()
	l := NewAdaptive()
	l.since = time.Now().Add(-time.Second)
	transport := l.Watch(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	response, err := transport.RoundTrip(nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	l.Enter()
	l.Leave(true)
	require.Equal(t, 11, l.limit)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestNeverMoreAreAtWorkThanTheLimit(t *testing.T) {
	t.Parallel()
	for _, l := range []*Limit{NewFixed(3), NewAdaptive()} {
		var active, most atomic.Int64
		var group sync.WaitGroup
		for range 2000 {
			group.Go(func() {
				l.Enter()
				now := active.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				active.Add(-1)
				l.Leave(true)
			})
		}
		group.Wait()
		require.LessOrEqual(t, most.Load(), int64(l.Most()))
		require.Zero(t, l.active)
	}
}
