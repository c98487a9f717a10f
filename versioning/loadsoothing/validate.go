package loadsoothing

import (
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// validateRefusal checks a decision that does not admit a load: it has a reason and a bounded wait.
func validateRefusal(reason string, retryAfter time.Duration) error {
	if err := reply.Line("reason", reason); err != nil {
		return err
	}
	if retryAfter > MaxRetryAfter {
		return fmt.Errorf("retry_after is %s, want at most %s", retryAfter, MaxRetryAfter)
	}
	return nil
}
