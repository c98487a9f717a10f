package operation

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/action"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Starter is an action that starts operations, or another whose calls may be repeated.
type Starter struct{ *action.Action }

// with adapts a check of an action.
func with(check func(context.Context, *Starter) error) suite.Check {
	return func(ctx context.Context, s *suite.Subject) error { return check(ctx, of(s)) }
}

func of(s *suite.Subject) *Starter { return &Starter{&action.Action{Subject: s}} }

// operation returns an exchange that has started an operation.
func (s *Starter) operation(ctx context.Context) (action.Exchange, error) {
	all, err := s.Answered(ctx)
	if err != nil {
		return action.Exchange{}, err
	}
	for _, one := range all {
		if one.Answer.Operation != "" {
			return one, nil
		}
	}
	return action.Exchange{}, suite.Skip("it starts no operation for the sample items")
}

// following holds consecutive answers of Progress.
type following struct {
	progress []*shared.OperationProgress
	took     time.Duration // from the start to the completion; 0 if the operation has not completed
	err      error
}

// followed starts an operation and returns the answers of Progress until it has completed, and some after that, or until
// the time is over. It does not follow the operation of an earlier exchange, which other rules may have left to its end.
func (s *Starter) followed(ctx context.Context) (action.Exchange, following, error) {
	one, err := s.operation(ctx)
	if err != nil {
		return one, following{}, err
	}
	began := time.Now()
	started := suite.Remembered(s.Subject, "followed operation", func() action.Exchange {
		if q, got, err := s.startFor(ctx, one, "followed"); err == nil {
			one.Request, one.Answer = q, got
		}
		return one
	})
	all := suite.Remembered(s.Subject, "followed", func() following {
		var all following
		pause := time.Millisecond
		for deadline, after := time.Now().Add(s.OperationWait), 0; after < 3 &&
			(time.Now().Before(deadline) || len(all.progress) < 3 || after > 0); {
			progress, err := s.Progress(ctx, started.Answer.Operation, started.Request.Owner)
			if err != nil {
				all.err = fmt.Errorf("progress of the operation %q on %s: %w", started.Answer.Operation, started.Sample, err)
				break
			}
			all.progress = append(all.progress, progress)
			if after > 0 || progress.GetCompleted() {
				if after == 0 {
					all.took = time.Since(began)
				}
				after++
				continue
			}
			if all.err = suite.Sleep(ctx, pause); all.err != nil {
				return all
			}
			pause = min(2*pause, 50*time.Millisecond) // many operations on items that do not exist end soon
		}
		return all
	})
	return started, all, nil
}

// startFor starts an operation on the item of an exchange for another Backup or Restore, called owner.
func (s *Starter) startFor(ctx context.Context, one action.Exchange, owner string) (wire.Request, *wire.Answer, error) {
	q := one.Request
	q.Owner, q.Key = sample.Encode(s.Owner(owner)), owner+"/"+one.Sample.String()
	got, err := s.Execute(ctx, q)
	if err != nil {
		return q, nil, suite.Skip("for another %s the item gets an error: %v", s.ownerKind(), err)
	}
	if got.Operation == "" {
		return q, nil, suite.Skip("for another %s of the same item it starts no operation", s.ownerKind())
	}
	return q, got, nil
}

// ownerKind returns "Backup" or "Restore".
func (s *Starter) ownerKind() string {
	if s.How().Restore {
		return "Restore"
	}
	return "Backup"
}

func checkOperationID(ctx context.Context, s *Starter) error {
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		switch id := one.Answer.Operation; {
		case len(id) > 1024:
			return fmt.Errorf("asked about %s: the id has %d bytes", one.Sample, len(id))
		case strings.ContainsFunc(id, unicode.IsControl):
			return fmt.Errorf("asked about %s: the id %q has control characters", one.Sample, id)
		case id != "" && strings.TrimSpace(id) == "":
			return fmt.Errorf("asked about %s: the id %q is blank", one.Sample, id)
		}
	}
	return nil
}

func checkOperationItems(ctx context.Context, s *Starter) error {
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if len(one.Answer.After) > 0 && one.Answer.Operation == "" {
			return fmt.Errorf("asked about %s: post-operation items %v and no operation", one.Sample, one.Answer.After)
		}
	}
	return nil
}
