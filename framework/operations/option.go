package operations

import "time"

// Option says how a runner runs.
type Option func(*settings)

type settings struct {
	resume  bool
	slots   chan struct{} // nil: any number
	lease   time.Duration
	keepFor time.Duration
}

// ResumeAfterRestart has the work on an operation done again, from its beginning, when the process that worked on it has
// ended; so the work must stand being begun twice. Without it such an operation ends as failed.
func ResumeAfterRestart() Option {
	return func(s *settings) { s.resume = true }
}

// AtOnce is how many operations a process works on at the same time; the others wait. Without it there is no limit.
func AtOnce(n int) Option {
	return func(s *settings) { s.slots = make(chan struct{}, max(n, 1)) }
}

// WithLease is how long a process that works on an operation may give no sign of life before another takes the operation
// over; 15 seconds without. Three signs go into it, each of which is a write to the store. A process that was silent for
// longer (it was stopped, say) finds its work's context cancelled.
func WithLease(lease time.Duration) Option {
	return func(s *settings) { s.lease = lease }
}

// KeepFor is how long operations are kept that have ended, or that nobody works on or asks about; a week without. A host asks about
// an operation for as long as it follows it, which is some hours.
func KeepFor(age time.Duration) Option {
	return func(s *settings) { s.keepFor = age }
}
