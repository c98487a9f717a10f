package operations

import "time"

// Option changes how a runner works.
type Option func(*settings)

type settings struct {
	resume  bool
	slots   chan struct{} // nil means no limit
	lease   time.Duration
	keepFor time.Duration
}

// WithResume makes the runner repeat the work on an operation, from its beginning, when the process that worked on it
// has ended. The work must be safe to repeat. Without this option such an operation fails.
func WithResume() Option {
	return func(s *settings) { s.resume = true }
}

// WithConcurrency limits how many operations this process works on at the same time; the others wait. Without this
// option there is no limit.
func WithConcurrency(n int) Option {
	return func(s *settings) { s.slots = make(chan struct{}, max(n, 1)) }
}

// WithLease sets how long the process that works on an operation may go without a heartbeat before another process
// takes the operation over. The default is 15 seconds. A process sends three heartbeats per lease, and each is a write
// to the store. If a process was suspended for longer than the lease, it cancels the work's context when it continues.
func WithLease(lease time.Duration) Option {
	return func(s *settings) { s.lease = lease }
}

// WithRetention sets how long the runner keeps operations that have completed, or that no process works on and no host
// asks about. The default is a week. A host asks about an operation as long as it monitors it, which is some hours.
func WithRetention(age time.Duration) Option {
	return func(s *settings) { s.keepFor = age }
}
