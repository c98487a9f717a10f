package process

import (
	"cmp"
	"time"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// Restart configures how a process that died is started again. A zero field takes its default.
type Restart struct {
	// Backoff is the wait before the second restart in a row; it doubles from there, up to 100 times. The first restart
	// does not wait. Default 100 ms.
	Backoff time.Duration
	// Threshold is the number of failures in a row after which the circuit opens: calls fail at once for CoolDown, then
	// one start is tried. Default 5.
	Threshold int
	// CoolDown is how long the circuit stays open; it doubles with every failed attempt, up to 10 times. Default 30 s.
	CoolDown time.Duration
	// Jitter returns a number in [0, 1): a wait is shortened by up to half of itself, so that processes that died together
	// do not start together. nil means no jitter.
	Jitter func() float64
}

const (
	maxBackoff  = 100 // times Restart.Backoff
	maxCoolDown = 10  // times Restart.CoolDown
	// healthyAfter is how long a process has to run for earlier failures to be forgotten.
	healthyAfter = time.Minute
)

func (r Restart) withDefaults() Restart {
	r.Backoff = cmp.Or(r.Backoff, 100*time.Millisecond)
	r.Threshold = cmp.Or(r.Threshold, 5)
	r.CoolDown = cmp.Or(r.CoolDown, 30*time.Second)
	return r
}

// breaker decides when a process may be started again. It is plain arithmetic; health guards it with its lock.
type breaker struct {
	policy   Restart
	failures int       // in a row
	last     error     // the last of them
	until    time.Time // no start before
}

// failed notes that the process could not be started (uptime 0) or ended when it should not have.
func (b *breaker) failed(now time.Time, uptime time.Duration, err error) {
	if uptime >= healthyAfter {
		b.failures = 0
	}
	b.failures++
	b.last = err
	b.until = now.Add(b.wait())
}

// worked notes that the process did real work, so that the next failure counts as the first one.
func (b *breaker) worked() {
	b.failures = 0
	b.until = time.Time{}
}

// next returns how long to wait before a start, or an error if there is to be none now.
func (b *breaker) next(now time.Time, command string) (time.Duration, error) {
	wait := max(0, b.until.Sub(now))
	if b.open() && wait > 0 {
		return 0, &calls.OutOfServiceError{Command: command, Failures: b.failures, Until: b.until, Last: b.last}
	}
	return wait, nil
}

func (b *breaker) open() bool { return b.failures >= b.policy.Threshold }

// wait returns the pause after the current number of failures.
func (b *breaker) wait() time.Duration {
	if b.open() {
		return doubled(b.policy.CoolDown, b.failures-b.policy.Threshold, maxCoolDown)
	}
	if b.failures <= 1 {
		return 0
	}
	wait := doubled(b.policy.Backoff, b.failures-2, maxBackoff)
	if b.policy.Jitter != nil {
		wait -= time.Duration(b.policy.Jitter() * float64(wait) / 2)
	}
	return wait
}

// CoolDownAfter returns how long to wait after a number of failures in a row, each of Threshold starts.
func (r Restart) CoolDownAfter(failures int) time.Duration {
	return doubled(r.withDefaults().CoolDown, failures-1, maxCoolDown)
}

// doubled returns d doubled n times, but at most d times limit.
func doubled(d time.Duration, n, limit int) time.Duration {
	factor := 1
	for range n {
		if factor *= 2; factor >= limit {
			factor = limit
			break
		}
	}
	return d * time.Duration(factor)
}
