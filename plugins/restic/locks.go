package restic

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

const (
	// lookEvery is how often the names of the locks are listed while a command waits for them.
	lookEvery = 2 * time.Second
	// unlockEvery is how often stale locks are looked for while a command waits.
	unlockEvery = time.Minute
)

// waitForLocks runs a command, and repeats it for up to lockWait while the lock of another process prevents it.
func (s *session) waitForLocks(ctx context.Context, run func() error) error {
	began := time.Now()
	for {
		err := run()
		if !isLocked(err) {
			return s.explain(ctx, err)
		}
		by := s.Clean(lockedBy(err))
		if time.Since(began) >= s.mover.lockWait {
			return framework.Unavailable("repository %s: %s; waited for %s", s.repository, by, s.mover.lockWait)
		}
		framework.Log(ctx).Info("waiting for a lock", "repository", s.repository.String(), "lock", by)
		if err := s.unlock(ctx); err != nil {
			return err
		}
		s.report(func(p *dmv1.Progress) { p.Activity = "waiting: " + by })
		if err := s.watchLocks(ctx, began.Add(s.mover.lockWait)); err != nil {
			return err
		}
		s.report(func(p *dmv1.Progress) { p.Activity = "" })
	}
}

// unlock removes stale locks.
func (s *session) unlock(ctx context.Context) error {
	if s.repository.ReadOnly {
		return nil
	}
	before, err := s.place.objects.list(ctx, "locks", "")
	if err != nil {
		return s.away(err)
	}
	if err := s.once(ctx, program.Command{Args: []string{"unlock"}}); err != nil {
		return s.explain(ctx, err)
	}
	after, err := s.place.objects.list(ctx, "locks", "")
	if err != nil {
		return s.away(err)
	}
	for _, lock := range before {
		if !slices.Contains(after, lock) {
			framework.Log(ctx).Info("a lock was removed, it may have been stale", "repository", s.repository.String(), "lock",
				lock)
		}
	}
	return nil
}

// watchLocks returns when another attempt may succeed: when a lock was removed, when locks may have become stale, or at
// the deadline.
func (s *session) watchLocks(ctx context.Context, deadline time.Time) error {
	before, err := s.place.objects.list(ctx, "locks", "")
	if err != nil {
		return s.away(err)
	}
	again := time.Now().Add(unlockEvery)
	for {
		if len(before) == 0 || time.Now().After(again) || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery):
		}
		s.report(func(*dmv1.Progress) {})
		now, err := s.place.objects.list(ctx, "locks", "")
		if err != nil {
			return s.away(err)
		}
		for _, lock := range before {
			if !slices.Contains(now, lock) {
				return nil
			}
		}
	}
}

// isLocked reports whether a command has failed because of a lock.
func isLocked(err error) bool {
	var failed *program.Error
	return errors.As(err, &failed) && failed.Says("already locked")
}

// lockedBy returns who has the lock that a command has met.
func lockedBy(err error) string {
	var failed *program.Error
	if !errors.As(err, &failed) {
		return ""
	}
	text := ""
	for _, line := range failed.Lines {
		if found := lockLine.FindString(line); found != "" {
			text = found
		}
		if text != "" && lockAge.MatchString(line) {
			return text + ", " + lockAge.FindString(line)
		}
	}
	return text
}
