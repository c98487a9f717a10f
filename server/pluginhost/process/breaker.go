package process

import (
	"cmp"
	"time"

	"github.com/cleat-dev/cleat/server/pluginhost/calls"
)

// Restart says how a process that died is brought back. A zero field takes its default.
type Restart struct {
	// Base is the wait before the second restart in a row; it doubles from there. The first restart does
	// not wait. Default 100 ms.
	Base time.Duration
	// Max bounds the wait. Default 10 s.
	Max time.Duration
	// Threshold is the number of failures in a row after which the circuit opens: calls fail at once for
	// CoolDown, then one start is tried. Default 5.
	Threshold int
	// CoolDown is how long the circuit stays open; it doubles with every failed trial up to MaxCoolDown.
	// Defaults 30 s and 5 min.
	CoolDown    time.Duration
	MaxCoolDown time.Duration
	// HealthyAfter is the uptime that wipes out earlier failures. Default 1 min.
	HealthyAfter time.Duration
	// Jitter answers a number in [0, 1): a wait is shortened by up to half of itself, so that processes
	// that died together do not come back together.
	Jitter func() float64
}

func (r Restart) withDefaults() Restart {
	r.Base = cmp.Or(r.Base, 100*time.Millisecond)
	r.Max = cmp.Or(r.Max, 10*time.Second)
	r.Threshold = cmp.Or(r.Threshold, 5)
	r.CoolDown = cmp.Or(r.CoolDown, 30*time.Second)
	r.MaxCoolDown = cmp.Or(r.MaxCoolDown, 5*time.Minute)
	r.HealthyAfter = cmp.Or(r.HealthyAfter, time.Minute)
	return r
}

// breaker decides when a process may be started again. It is plain arithmetic on what it is told; the
// supervisor guards it with its lock.
type breaker struct {
	policy   Restart
	failures int       // in a row
	last     error     // the last of them
	until    time.Time // no start before
}

// failed notes that the process could not be started (uptime 0) or ended when it should not have.
func (b *breaker) failed(now time.Time, uptime time.Duration, err error) {
	if uptime >= b.policy.HealthyAfter {
		b.failures = 0
	}
	b.failures++
	b.last = err
	b.until = now.Add(b.wait())
}

// worked notes that the process did real work, which makes the next failure the first one again.
func (b *breaker) worked() {
	b.failures = 0
	b.until = time.Time{}
}

// next says how long to wait before a start, or that there will be none for now.
func (b *breaker) next(now time.Time, command string) (time.Duration, error) {
	wait := max(0, b.until.Sub(now))
	if b.open() && wait > 0 {
		return 0, &calls.OutOfServiceError{Command: command, Failures: b.failures, Retry: wait, Last: b.last}
	}
	return wait, nil
}

func (b *breaker) open() bool { return b.failures >= b.policy.Threshold }

// wait is the pause after the current number of failures.
func (b *breaker) wait() time.Duration {
	if b.open() {
		return doubled(b.policy.CoolDown, b.failures-b.policy.Threshold, b.policy.MaxCoolDown)
	}
	if b.failures <= 1 {
		return 0
	}
	wait := doubled(b.policy.Base, b.failures-2, b.policy.Max)
	if b.policy.Jitter != nil {
		wait -= time.Duration(b.policy.Jitter() * float64(wait) / 2)
	}
	return wait
}

// doubled is d doubled n times, at most limit.
func doubled(d time.Duration, n int, limit time.Duration) time.Duration {
	for range n {
		if d >= limit {
			break
		}
		d *= 2
	}
	return min(d, limit)
}
