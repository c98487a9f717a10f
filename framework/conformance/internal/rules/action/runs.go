package action

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// checkRunsApart compares the answers of two processes that have served no other call with that of a process which has
// served another run before.
func checkRunsApart(ctx context.Context, s *Action) error {
	switch {
	case s.Info == nil:
		return suite.Skip("without PluginInfo, a host starts a process for each run")
	case s.Info.GetProcessPerRun():
		return suite.Skip("it asks for a process for each run")
	}
	one, err := s.Sound(ctx)
	if err != nil {
		return err
	}
	if _, err := s.NeedsProcess(ctx); err != nil {
		return err
	}
	defer s.Host.Stop()
	var fresh [2]*wire.Answer
	for i := range fresh {
		s.Host.Stop()
		if fresh[i], err = s.Execute(ctx, one.Request); err != nil {
			return fmt.Errorf("asked about %s in a new process: %w", one.Sample, err)
		}
	}
	if difference(fresh[0], fresh[1]) != nil {
		return suite.Skip("its answers differ from process to process")
	}
	again, err := s.Execute(ctx, one.Request)
	if err != nil {
		return fmt.Errorf("asked about %s again: %w", one.Sample, err)
	}
	if difference(fresh[1], again) != nil {
		return suite.Skip("its answers differ within a run")
	}
	s.Host.Stop()
	_, _ = s.Execute(ctx, s.ofOtherRun(one.Sample)) // which it may refuse
	after, err := s.Execute(ctx, one.Request)
	if err != nil {
		return fmt.Errorf("asked about %s after another run: %w", one.Sample, err)
	}
	if err := difference(fresh[0], after); err != nil {
		return fmt.Errorf("asked about %s in a new process and after another run, %w; register WithProcessPerRun, or keep "+
			"no state of a run", one.Sample, err)
	}
	return nil
}

// ofOtherRun returns a request about another item for another owner.
func (s *Action) ofOtherRun(of sample.Sample) wire.Request {
	q := s.Request(of.With(func(item *unstructured.Unstructured) {
		if item.GetNamespace() != "" {
			item.SetNamespace(sample.OtherOwner)
		}
		item.SetName(sample.OtherOwner)
		sample.Annotate(item, "conformance.invalid/run", sample.OtherOwner)
	}))
	q.Owner, q.Key = sample.Encode(s.Owner(sample.OtherOwner)), sample.OtherOwner
	return q
}
