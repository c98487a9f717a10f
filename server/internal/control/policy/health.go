package policy

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/versioning"
)

// The reasons why a policy failed.
const (
	ReasonUnavailable   = "PluginUnavailable" // it does not exist, is quarantined, or has another kind
	ReasonConfigRefused = "ConfigRefused"     // its replacement does not accept the config
	ReasonOverdue       = "Overdue"           // it did not answer in time, or takes items too slowly
	ReasonDied          = "Died"              // its process ended
	ReasonOutOfService  = "OutOfService"      // its process ended so often that it is not called for a while
	ReasonInvalidReply  = "InvalidReply"      // its reply violates the rules of its kind
	ReasonNotKept       = "NotKept"           // a file that it wrote could not be stored
	ReasonFailed        = "Failed"            // it answered with an error
)

// ReasonOf returns why a policy failed, by the error of Decide or of an Outcome; empty for nil.
func ReasonOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*unavailableError)):
		return ReasonUnavailable
	case errors.As(err, new(*configError)):
		return ReasonConfigRefused
	case errors.As(err, new(*notKeptError)):
		return ReasonNotKept
	case errors.As(err, new(*calls.OutOfServiceError)):
		return ReasonOutOfService
	case errors.As(err, new(*calls.OverdueError)), errors.As(err, new(*tooSlowError)):
		return ReasonOverdue
	case errors.As(err, new(*calls.DiedError)):
		return ReasonDied
	case errors.Is(err, versioning.ErrInvalidReply):
		return ReasonInvalidReply
	default:
		return ReasonFailed
	}
}

// health records the state of a policy, and logs its changes.
type health struct {
	log    hclog.Logger
	counts *metrics
	clock  func() time.Time

	mu     sync.Mutex
	status serverreport.Policy
}

func newHealth(status serverreport.Policy, log hclog.Logger, counts *metrics, clock func() time.Time) *health {
	counts.failing(status)
	return &health{log: log, counts: counts, clock: clock, status: status}
}

func (h *health) now() serverreport.Policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

// report records how a call ended, and which plugin decided, and returns the new status. A change of the reason is
// logged.
func (h *health) report(err error, decides string) serverreport.Policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.status
	h.status.Reason, h.status.Decides = ReasonOf(err), decides
	if before.Since.IsZero() || h.status.Reason != before.Reason {
		h.status.Since = h.clock().UTC().Truncate(time.Second)
	}
	if err == nil {
		h.status.Message, h.status.Failures = "", 0
	} else {
		h.status.Message = calls.WithoutStderr(err)
		h.status.Failures++
		h.counts.failed(h.status)
	}
	h.counts.failing(h.status)
	switch {
	case err != nil && h.status.Reason != before.Reason:
		h.log.Error("policy fails", "failurePolicy", h.status.FailurePolicy, "reason", h.status.Reason, "error", err)
	case err == nil && before.Reason != "":
		h.log.Info("policy works again", "failures", before.Failures)
	}
	return h.status
}
