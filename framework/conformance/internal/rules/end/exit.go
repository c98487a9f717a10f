package end

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// worked returns a new run in which each plugin has answered a call. The caller must stop it.
func (s *holder) worked(ctx context.Context) (*suite.Running, error) {
	if _, err := s.NeedsProcess(ctx); err != nil {
		return nil, err
	}
	s.Host.Stop() // the next call starts a new run
	work := s.work(ctx)
	_ = s.Each(ctx, len(work), func(ctx context.Context, i int) error {
		_ = work[i](ctx)
		return nil
	})
	if _, err := s.NeedsProcess(ctx); err != nil {
		return nil, err
	}
	return s.Host.Take(), nil
}

func checkShutdown(ctx context.Context, s *holder) error {
	run, err := s.worked(ctx)
	if err != nil {
		return err
	}
	defer run.Stop()
	ctx, cancel := s.Call(ctx)
	defer cancel()
	// The connection may break before the answer arrives.
	if err := run.Process.Shutdown(ctx); status.Code(err) == codes.Unimplemented {
		return suite.Skip("it does not serve plugin.GRPCController; hosts end it by a signal")
	}
	if !run.Process.EndsWithin(ctx, s.EndTime) {
		return errors.New("it keeps running")
	}
	return nil
}

// termination describes how a process reacted to SIGTERM.
type termination struct {
	err  error // about the process itself
	left error // about the processes that it had started
}

func (s *holder) terminated(ctx context.Context) termination {
	return suite.Remembered(s.Subject, "termination", func() termination {
		run, err := s.worked(ctx)
		if err != nil {
			return termination{err, err}
		}
		defer run.Stop()
		leader := run.Process.Cmd.Process
		if err := process.Terminate(leader); err != nil {
			err = suite.SkipUnsupported(err)
			return termination{err, err}
		}
		if !run.Process.EndsWithin(ctx, s.EndTime) {
			return termination{errors.New("it keeps running"), suite.Skip("the process does not end")}
		}
		deadline := time.Now().Add(s.Patience)
		for pause := 10 * time.Millisecond; process.GroupLives(leader); pause *= 2 {
			if time.Now().After(deadline) {
				return termination{left: errors.New("a process of its group keeps running")}
			}
			if err := suite.Sleep(ctx, min(pause, time.Second)); err != nil {
				return termination{left: err}
			}
		}
		return termination{}
	})
}

func checkSigterm(ctx context.Context, s *holder) error { return s.terminated(ctx).err }

func checkOrphans(ctx context.Context, s *holder) error { return s.terminated(ctx).left }
