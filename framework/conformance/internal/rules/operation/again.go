package operation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

func checkOperationRestart(ctx context.Context, s *Starter) error {
	one, _, err := s.followed(ctx)
	if err != nil {
		return err
	}
	s.Host.Stop()
	if _, err := s.Progress(ctx, one.Answer.Operation, one.Request.Owner); err != nil {
		return fmt.Errorf("progress of the operation %q, which the process before has started: %w", one.Answer.Operation, err)
	}
	return nil
}

func checkStartAgain(ctx context.Context, s *Starter) error {
	return s.startsAgain(ctx, func() {})
}

// startsAgain starts an operation twice and calls between in the meantime.
func (s *Starter) startsAgain(ctx context.Context, between func()) error {
	one, err := s.operation(ctx)
	if err != nil {
		return err
	}
	first, err := s.Execute(ctx, one.Request)
	if err != nil {
		return fmt.Errorf("the second Start of %s: %w", one.Sample, err)
	}
	between()
	again, err := s.Execute(ctx, one.Request)
	if err != nil {
		return fmt.Errorf("the second Start of %s: %w", one.Sample, err)
	}
	if again.Operation != first.Operation {
		return fmt.Errorf("a Start of %s with the key %q answered the operation %q, the next one %q",
			one.Sample, one.Request.Key, first.Operation, again.Operation)
	}
	return nil
}

func checkStartAgainRestart(ctx context.Context, s *Starter) error {
	if checkStartAgain(ctx, s) != nil {
		return suite.Skip("it does not keep keys at all")
	}
	return s.startsAgain(ctx, s.Host.Stop)
}

func checkStartOther(ctx context.Context, s *Starter) error {
	one, err := s.operation(ctx)
	if err != nil {
		return err
	}
	q := s.Request(one.Sample.With(func(item *unstructured.Unstructured) { item.SetName("other") }))
	other, err := s.Execute(ctx, q)
	if err != nil {
		return suite.Skip("another item of the kind gets an error: %v", err)
	}
	if other.Operation == one.Answer.Operation {
		return fmt.Errorf("the keys %q and %q have the same operation %q", one.Request.Key, q.Key, other.Operation)
	}
	return nil
}

func checkDeleteAgain(ctx context.Context, s *Starter) error {
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	return s.Each(ctx, len(all), func(ctx context.Context, i int) error {
		if _, err := s.Execute(ctx, all[i].Request); err != nil {
			return fmt.Errorf("the second Execute of %s: %w", all[i].Sample, err)
		}
		return nil
	})
}
