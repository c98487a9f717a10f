package action

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func checkItem(ctx context.Context, s *Action) error {
	all, err := s.exchanges(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		switch {
		case suite.Panicked(one.Err):
			return fmt.Errorf("asked about %s: %w", one.Sample, one.Err)
		case status.Code(one.Err) == codes.DeadlineExceeded:
			return fmt.Errorf("asked about %s: no answer within %s", one.Sample, s.Timeout)
		case suite.Hung(one.Err):
			return fmt.Errorf("asked about %s: %w", one.Sample, one.Err)
		case one.Err != nil && strings.TrimSpace(status.Convert(one.Err).Message()) == "":
			return fmt.Errorf("asked about %s: an error without a message, of the code %s", one.Sample, status.Code(one.Err))
		}
	}
	return nil
}

func checkReplyItem(ctx context.Context, s *Action) error {
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := s.checkItemOf(one.Request, one.Answer); err != nil {
			return fmt.Errorf("asked about %s: %w", one.Sample, err)
		}
	}
	return nil
}

func checkIdentifiers(ctx context.Context, s *Action) error {
	if s.Kind == diav1.Kind().Wire {
		return suite.Skip("a DeleteItemAction answers no items")
	}
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.Answer.Skip {
			continue
		}
		for _, list := range [][]*shared.ResourceIdentifier{one.Answer.Additional, one.Answer.After} {
			for i, id := range list {
				if id.GetResource() == "" || id.GetName() == "" {
					return fmt.Errorf("asked about %s: item %d of %d names no resource or no object: %v", one.Sample, i+1, len(list),
						id)
				}
				for _, part := range []string{id.GetGroup(), id.GetResource(), id.GetNamespace(), id.GetName()} {
					if part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
						return fmt.Errorf("asked about %s: item %d of %d has %q in it", one.Sample, i+1, len(list), part)
					}
				}
			}
		}
	}
	return nil
}

func checkSameAnswer(ctx context.Context, s *Action) error {
	one, err := s.Sound(ctx)
	if err != nil {
		return err
	}
	again, err := s.Execute(ctx, one.Request)
	if err != nil {
		return fmt.Errorf("asked about %s for the second time: %w", one.Sample, err)
	}
	if err := difference(one.Answer, again); err != nil {
		return fmt.Errorf("asked about %s, %w", one.Sample, err)
	}
	return nil
}

// difference returns an error if two answers about an item differ, except for operations.
func difference(first, then *wire.Answer) error {
	switch {
	case first.Skip != then.Skip:
		return errors.New("it once skips the restore and once does not")
	case !sample.SameJSON(first.Item, then.Item):
		return fmt.Errorf("it first answers the item %s, and then %s", sample.Brief(first.Item), sample.Brief(then.Item))
	case fmt.Sprint(first.Additional) != fmt.Sprint(then.Additional):
		return fmt.Errorf("it first answers the items %v, and then %v", first.Additional, then.Additional)
	}
	return nil
}
