package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// neverStarted is an ID that no operation has.
const neverStarted = "conformance-never-started-5d5b6c7e"

func checkUnknownProgress(ctx context.Context, s *Starter) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	if _, err := s.operation(ctx); err != nil {
		return err
	}
	if progress, err := s.Progress(ctx, neverStarted, sample.Encode(s.Owner(sample.UsualOwner))); err == nil {
		return fmt.Errorf("the progress of the operation %q is %v", neverStarted, progress)
	}
	return nil
}

func checkUnknownHarmless(ctx context.Context, s *Starter) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	ids := []string{neverStarted, "", "../../etc/passwd", strings.Repeat("x", 100_000)}
	return s.Each(ctx, len(ids), func(ctx context.Context, i int) error {
		id := ids[i]
		_, progressErr := s.Progress(ctx, id, sample.Encode(s.Owner(sample.UsualOwner)))
		_, cancelErr := s.Cancel(ctx, id, sample.Encode(s.Owner(sample.UsualOwner)))
		for call, err := range map[string]error{"Progress": progressErr, "Cancel": cancelErr} {
			if suite.Hung(err) || suite.Panicked(err) {
				return fmt.Errorf("%s of %.40q: %w", call, id, err)
			}
		}
		return nil
	})
}
