package end

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

func checkStdout(ctx context.Context, s *holder) error {
	if _, err := s.NeedsProcess(ctx); err != nil {
		return err
	}
	if line := s.Output.OnStdout(); line != "" {
		return fmt.Errorf("it wrote %.300q", line)
	}
	return nil
}

func checkStderr(ctx context.Context, s *holder) error {
	if _, err := s.NeedsProcess(ctx); err != nil {
		return err
	}
	lines, odd := s.Output.OnStderr()
	if lines == 0 {
		return suite.Skip("it wrote nothing to stderr")
	}
	if odd != "" {
		return fmt.Errorf("it wrote %.300q", strings.TrimSpace(odd))
	}
	return nil
}
