package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// checkForward checks that Progress of an operation does not go back.
func checkForward(ctx context.Context, s *subject) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil || len(all.progress) < 2 {
		return skip("Progress does not answer")
	}
	for i, now := range all.progress[1:] {
		before := all.progress[i]
		switch {
		case now.GetOperationUnits() == before.GetOperationUnits() && now.GetNCompleted() < before.GetNCompleted():
			return fmt.Errorf("%d %s were done, and then %d", before.GetNCompleted(), before.GetOperationUnits(), now.GetNCompleted())
		case isBefore(now.GetUpdated(), before.GetUpdated()):
			return fmt.Errorf("it was updated at %s, and then at %s", before.GetUpdated().AsTime(), now.GetUpdated().AsTime())
		case before.GetStarted() != nil && !before.GetStarted().AsTime().Equal(now.GetStarted().AsTime()):
			return fmt.Errorf("it started at %s, and then at %s", before.GetStarted().AsTime(), now.GetStarted().AsTime())
		}
	}
	return nil
}

// startFor starts an operation on the item of an exchange for another Backup or Restore, called owner.
func (s *subject) startFor(ctx context.Context, one exchange, owner string) (wire.Question, *wire.Answer, error) {
	q := one.question
	q.Owner, q.Key = sample.Encode(s.owner(owner)), owner+"/"+one.sample.String()
	got, err := s.execute(ctx, q)
	if err != nil {
		return q, nil, skip("for another %s the item gets an error: %v", s.ownerKind(), err)
	}
	if got.Operation == "" {
		return q, nil, skip("for another %s of the same item it starts no operation", s.ownerKind())
	}
	return q, got, nil
}

// ownerKind returns "Backup" or "Restore".
func (s *subject) ownerKind() string {
	if s.action().Restore {
		return "Restore"
	}
	return "Backup"
}

// checkOwnOperation starts operations on one item for two owners and checks that they are independent.
func checkOwnOperation(ctx context.Context, s *subject) error {
	one, err := s.operation(ctx)
	if err != nil {
		return err
	}
	first, firstAnswer, err := s.startFor(ctx, one, "own-first")
	if err != nil {
		return err
	}
	defer s.abandon(ctx, first, firstAnswer)
	second, secondAnswer, err := s.startFor(ctx, one, "own-second")
	if err != nil {
		return err
	}
	defer s.abandon(ctx, second, secondAnswer)
	if firstAnswer.Operation == secondAnswer.Operation {
		// Operations may be identified by id and owner together. Then a third owner has none with this id.
		if _, err := s.progressOf(ctx, firstAnswer.Operation, sample.Encode(s.owner("own-third"))); err == nil {
			return fmt.Errorf("the operation on %s has the id %q for two %ss, and Progress does not distinguish them",
				one.sample, firstAnswer.Operation, s.ownerKind())
		}
	}
	before, err := s.progressOf(ctx, secondAnswer.Operation, second.Owner)
	if err != nil || before.GetCompleted() || before.GetErr() != "" {
		return nil //nolint:nilerr // there is nothing left that a Cancel could break; operation-progress has the error
	}
	if _, err := s.cancel(ctx, firstAnswer.Operation, first.Owner); err != nil {
		return nil //nolint:nilerr // operation-cancel has it
	}
	return settled(ctx, func() error {
		now, err := s.progressOf(ctx, secondAnswer.Operation, second.Owner)
		if err == nil && now.GetErr() != "" {
			return fmt.Errorf("cancelling the operation %q of one %s ended the operation %q of another on the same item: %s",
				firstAnswer.Operation, s.ownerKind(), secondAnswer.Operation, now.GetErr())
		}
		return nil
	})
}

// abandon cancels an operation that a check has started and does not need any longer.
func (s *subject) abandon(ctx context.Context, q wire.Question, a *wire.Answer) {
	if a != nil && a.Operation != "" {
		_, _ = s.cancel(context.WithoutCancel(ctx), a.Operation, q.Owner)
	}
}

// cancellation describes how an operation reacted to Cancel.
type cancellation struct {
	err   error
	ended bool // it completed, before the Cancel or after it
}

// cancelled starts an operation and cancels it at once.
func (s *subject) cancelled(ctx context.Context) cancellation {
	return remembered(s, "cancelled", func() cancellation {
		one, natural, err := s.followed(ctx)
		if err != nil {
			return cancellation{err: err}
		}
		began := time.Now()
		q, got, err := s.startFor(ctx, one, "cancelled")
		if err != nil {
			return cancellation{err: err}
		}
		progress, err := s.progressOf(ctx, got.Operation, q.Owner)
		switch {
		case err != nil:
			return cancellation{err: skip("Progress does not answer")}
		case progress.GetCompleted():
			return cancellation{err: skip("the operation completes at once"), ended: true}
		}
		ack, err := s.cancel(ctx, got.Operation, q.Owner)
		switch {
		case err != nil:
			return cancellation{err: skip("Cancel answers an error: %v", err)}
		case !ack:
			return cancellation{err: skip("it answers that it cannot stop the operation")}
		}
		progress, err = s.untilCompleted(ctx, got.Operation, q.Owner)
		took := time.Since(began)
		switch {
		case err != nil:
			return cancellation{err: err}
		case !progress.GetCompleted():
			return cancellation{err: fmt.Errorf("the operation %q has not completed %s after Cancel", got.Operation, process.Patience)}
		case natural.took > 0 && natural.took < time.Second && progress.GetErr() == "":
			return cancellation{err: skip("the operation completes too soon to see whether Cancel has ended it"), ended: true}
		case natural.took > 0 && progress.GetErr() == "" && took > natural.took*3/4:
			return cancellation{err: fmt.Errorf("the operation %q completed without an error %s after its start, one that is not cancelled does so after %s",
				got.Operation, took.Round(time.Millisecond), natural.took.Round(time.Millisecond))}
		}
		return cancellation{ended: true}
	})
}

// untilCompleted returns the last progress of an operation: a completed one, or the one at the end of the waiting time.
func (s *subject) untilCompleted(ctx context.Context, id string, owner []byte) (*shared.OperationProgress, error) {
	for deadline := time.Now().Add(process.Patience); ; {
		progress, err := s.progressOf(ctx, id, owner)
		if err != nil {
			return nil, fmt.Errorf("progress after Cancel: %w", err)
		}
		if progress.GetCompleted() || time.Now().After(deadline) {
			return progress, nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func checkCancelEnds(ctx context.Context, s *subject) error { return s.cancelled(ctx).err }

// leavesWork reports whether operations of the action go on after a Cancel, so that their resources add up.
func (s *subject) leavesWork(ctx context.Context) bool {
	if _, err := s.operation(ctx); err != nil {
		var why *skipped
		return !errors.As(err, &why)
	}
	return !s.cancelled(ctx).ended
}
