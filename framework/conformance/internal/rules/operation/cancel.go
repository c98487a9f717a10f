package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/action"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func checkCancel(ctx context.Context, s *Starter) error {
	one, _, err := s.followed(ctx)
	if err != nil {
		return err
	}
	for _, which := range []string{"first", "second"} {
		if _, err := s.Cancel(ctx, one.Answer.Operation, one.Request.Owner); err != nil {
			return fmt.Errorf("the %s Cancel of the operation %q: %w", which, one.Answer.Operation, err)
		}
	}
	if _, err := s.Progress(ctx, one.Answer.Operation, one.Request.Owner); err != nil {
		return fmt.Errorf("progress after Cancel: %w", err)
	}
	return nil
}

func checkCancelEnds(ctx context.Context, s *Starter) error { return s.cancelled(ctx).err }

// cancellation describes how an operation reacted to Cancel.
type cancellation struct {
	err   error
	ended bool // it completed, before the Cancel or after it
}

// cancelled starts an operation and cancels it at once. An operation that seems to have ignored that may have been
// slowed down by others on the machine, so a second and a third one must seem so too.
func (s *Starter) cancelled(ctx context.Context) cancellation {
	return suite.Remembered(s.Subject, "cancelled", func() cancellation {
		one, natural, err := s.followed(ctx)
		if err != nil {
			return cancellation{err: err}
		}
		var last cancellation
		for _, owner := range []string{"cancelled", "cancelled-again", "cancelled-thrice"} {
			var ignored bool
			if last, ignored = s.cancelOne(ctx, one, natural, owner); !ignored {
				break
			}
		}
		return last
	})
}

// shortest is the duration of an operation of which its end shows whether Cancel has ended it.
const shortest = 200 * time.Millisecond

// cancelOne starts an operation for owner and cancels it. ignored is set if the operation seems to have gone on to its
// natural end.
func (s *Starter) cancelOne(
	ctx context.Context, one action.Exchange, natural following, owner string,
) (seen cancellation, ignored bool) {
	began := time.Now()
	q, got, err := s.startFor(ctx, one, owner)
	if err != nil {
		return cancellation{err: err}, false
	}
	progress, err := s.Progress(ctx, got.Operation, q.Owner)
	switch {
	case err != nil:
		return cancellation{err: suite.Skip("Progress does not answer")}, false
	case progress.GetCompleted():
		return cancellation{err: suite.Skip("the operation completes at once"), ended: true}, false
	}
	ack, err := s.Cancel(ctx, got.Operation, q.Owner)
	switch {
	case err != nil:
		return cancellation{err: suite.Skip("Cancel answers an error: %v", err)}, false
	case !ack:
		return cancellation{err: suite.Skip("it answers that it cannot stop the operation")}, false
	}
	acknowledged := time.Since(began)
	progress, err = s.untilCompleted(ctx, got.Operation, q.Owner)
	took := time.Since(began)
	switch {
	case err != nil:
		return cancellation{err: err}, false
	case !progress.GetCompleted():
		return cancellation{err: fmt.Errorf("the operation %q has not completed %s after Cancel", got.Operation,
			s.Patience)}, false
	case natural.took == 0, progress.GetErr() != "", progress.GetNCompleted() < progress.GetNTotal():
		return cancellation{ended: true}, false
	case natural.took < shortest, acknowledged > natural.took/4:
		return cancellation{err: suite.Skip("the operation completes too soon to see whether Cancel has ended it"),
			ended: true}, false
	case took > natural.took*3/4:
		return cancellation{err: fmt.Errorf("the operation %q completed without an error %s after its start, one that is "+
			"not cancelled does so after %s",
			got.Operation, took.Round(time.Millisecond), natural.took.Round(time.Millisecond))}, true
	}
	return cancellation{ended: true}, false
}

// untilCompleted returns the last progress of an operation: a completed one, or the one at the end of the waiting time.
func (s *Starter) untilCompleted(ctx context.Context, id string, owner []byte) (*shared.OperationProgress, error) {
	for deadline := time.Now().Add(s.Patience); ; {
		progress, err := s.Progress(ctx, id, owner)
		if err != nil {
			return nil, fmt.Errorf("progress after Cancel: %w", err)
		}
		if progress.GetCompleted() || time.Now().After(deadline) {
			return progress, nil
		}
		if err := suite.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// checkOwnOperation starts operations on one item for two owners and checks that they are independent.
func checkOwnOperation(ctx context.Context, s *Starter) error {
	one, err := s.operation(ctx)
	if err != nil {
		return err
	}
	first, firstAnswer, err := s.startFor(ctx, one, "own-first")
	if err != nil {
		return err
	}
	defer s.Abandon(ctx, first, firstAnswer)
	second, secondAnswer, err := s.startFor(ctx, one, "own-second")
	if err != nil {
		return err
	}
	defer s.Abandon(ctx, second, secondAnswer)
	if firstAnswer.Operation == secondAnswer.Operation {
		// Operations may be identified by id and owner together. Then a third owner has none with this id.
		if _, err := s.Progress(ctx, firstAnswer.Operation, sample.Encode(s.Owner("own-third"))); err == nil {
			return fmt.Errorf("the operation on %s has the id %q for two %ss, and Progress does not distinguish them",
				one.Sample, firstAnswer.Operation, s.ownerKind())
		}
	}
	before, err := s.Progress(ctx, secondAnswer.Operation, second.Owner)
	if err != nil || before.GetCompleted() || before.GetErr() != "" {
		return nil //nolint:nilerr // there is nothing left that a Cancel could break; operation-progress has the error
	}
	if _, err := s.Cancel(ctx, firstAnswer.Operation, first.Owner); err != nil {
		return nil //nolint:nilerr // operation-cancel has it
	}
	return suite.Settled(ctx, func() error {
		now, err := s.Progress(ctx, secondAnswer.Operation, second.Owner)
		if err == nil && now.GetErr() != "" {
			return fmt.Errorf("cancelling the operation %q of one %s ended the operation %q of another on the same item: %s",
				firstAnswer.Operation, s.ownerKind(), secondAnswer.Operation, now.GetErr())
		}
		return nil
	})
}

// LeavesWork reports whether operations of an action go on after a Cancel, so that their resources add up.
func LeavesWork(ctx context.Context, subject *suite.Subject) bool {
	s := of(subject)
	if _, err := s.operation(ctx); err != nil {
		return !suite.IsSkip(err)
	}
	return !s.cancelled(ctx).ended
}
