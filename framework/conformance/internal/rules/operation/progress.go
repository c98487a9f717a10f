package operation

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

func checkProgress(ctx context.Context, s *Starter) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil {
		return all.err
	}
	for _, progress := range all.progress {
		if progress == nil {
			return errors.New("there is no progress in the answer")
		}
		if progress.GetNCompleted() < 0 || progress.GetNTotal() < 0 {
			return fmt.Errorf("%d of %d are done", progress.GetNCompleted(), progress.GetNTotal())
		}
		for field, at := range map[string]*timestamppb.Timestamp{"started": progress.GetStarted(),
			"updated": progress.GetUpdated()} {
			if err := at.CheckValid(); at != nil && err != nil {
				return fmt.Errorf("%s is not a valid time: %w", field, err)
			}
		}
	}
	return nil
}

func checkProgressSane(ctx context.Context, s *Starter) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil || len(all.progress) == 0 {
		return suite.Skip("Progress does not answer")
	}
	for _, progress := range all.progress {
		switch started, updated := progress.GetStarted(), progress.GetUpdated(); {
		case progress.GetNTotal() > 0 && progress.GetNCompleted() > progress.GetNTotal():
			return fmt.Errorf("%d of %d are done", progress.GetNCompleted(), progress.GetNTotal())
		case progress.GetErr() != "" && !progress.GetCompleted():
			return fmt.Errorf("the error is %q, and it is not completed", progress.GetErr())
		case isBefore(updated, started):
			return fmt.Errorf("it was updated at %s and began at %s", updated.AsTime(), started.AsTime())
		}
	}
	return nil
}

func checkCompletedStays(ctx context.Context, s *Starter) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil {
		return suite.Skip("Progress does not answer")
	}
	completed := 0
	for _, progress := range all.progress {
		switch {
		case progress.GetCompleted():
			completed++
		case completed > 0:
			return errors.New("it was completed, and then it was not")
		}
	}
	if completed == 0 {
		return suite.Skip("the operation did not complete within %s", s.OperationWait)
	}
	return nil
}

// checkForward checks that Progress of an operation does not go back.
func checkForward(ctx context.Context, s *Starter) error {
	_, all, err := s.followed(ctx)
	if err != nil {
		return err
	}
	if all.err != nil || len(all.progress) < 2 {
		return suite.Skip("Progress does not answer")
	}
	for i, now := range all.progress[1:] {
		before := all.progress[i]
		switch {
		case now.GetOperationUnits() == before.GetOperationUnits() && now.GetNCompleted() < before.GetNCompleted():
			return fmt.Errorf("%d %s were done, and then %d", before.GetNCompleted(), before.GetOperationUnits(),
				now.GetNCompleted())
		case isBefore(now.GetUpdated(), before.GetUpdated()):
			return fmt.Errorf("it was updated at %s, and then at %s", before.GetUpdated().AsTime(), now.GetUpdated().AsTime())
		case before.GetStarted() != nil && !before.GetStarted().AsTime().Equal(now.GetStarted().AsTime()):
			return fmt.Errorf("it started at %s, and then at %s", before.GetStarted().AsTime(), now.GetStarted().AsTime())
		}
	}
	return nil
}

// isBefore reports whether both are times, and a is before b.
func isBefore(a, b *timestamppb.Timestamp) bool {
	return a.IsValid() && b.IsValid() && a.AsTime().Before(b.AsTime())
}
