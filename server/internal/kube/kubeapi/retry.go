package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

const (
	// maxAttempts limits the attempts of a write whose failures may be final: conflicts and internal
	// errors.
	maxAttempts = 9
	// maxPause limits the pause that a server may request.
	maxPause = 30 * time.Second
	// startTime is how long an API server that has come back may refuse requests because it has not yet
	// loaded roles, namespaces and custom resources.
	startTime = 30 * time.Second
	// warnAttempt is the attempt whose failure is logged as a warning.
	warnAttempt = 3
)

// ErrUnreachable is returned if the API server has not replied for as long as the client repeats requests.
var ErrUnreachable = errors.New("API server does not respond")

// Transient reports whether a request that failed with err may succeed later: the API server did not
// reply, is overloaded (429) or failed (408, 5xx). The end of a context is not transient, nor is what no
// attempt changes: another reply, and a request that cannot be sent, for example because of a name with a
// slash. Whatever repeats requests to the API server asks Transient.
func Transient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTooLarge) {
		return false
	}
	code, replied := statusCode(err)
	switch {
	case !replied:
		return !neverSent(err)
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return true
	}
	return code >= http.StatusInternalServerError && code != http.StatusNotImplemented
}

// PathNotFound reports whether the API server does not serve the path of a request, in contrast to a missing object or
// namespace.
func PathNotFound(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusNotFound {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Backoff returns the pauses between the attempts of one request, which grow from 50 ms to 5 s.
func Backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 100, Cap: 5 * time.Second}
}

// Pause waits before the next attempt of a request that failed with err: for the next pause of backoff,
// or for as long as the API server requests. If ctx ends first, it returns the cause and err.
func Pause(ctx context.Context, backoff *wait.Backoff, err error) error {
	return pause(ctx, backoff, err, maxPause)
}

func pause(ctx context.Context, backoff *wait.Backoff, err error, limit time.Duration) error {
	d := backoff.Step()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, min(time.Duration(seconds)*time.Second, maxPause))
	}
	timer := time.NewTimer(min(d, limit))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("gave up, %w, after: %w", context.Cause(ctx), err)
	case <-timer.C:
		return nil
	}
}

// retry makes attempts until one succeeds, fails for good or the time is up. uncertain means that an
// attempt failed that may have taken effect.
//
// The time is up if the request has been repeated for retryFor, or if all requests have failed for that
// long; then each further request gets one attempt, until one succeeds. If a webhook or the server of an API group has
// failed for so long, the requests that need it are refused; see dependency.go.
func (c *Client) retry(
	ctx context.Context, r *Request, what string, attempt func(context.Context) error,
) (uncertain bool, err error) {
	var began, unavailable time.Time // of the repetitions; of the last failure for lack of a server
	backoff := Backoff()
	var waiting waits.Retry
	defer waiting.End()
	var until time.Time // the end of the time for parts of the cluster that fail; zero for none
	for n := 1; ; n++ {
		if err := c.dependencies.refuse(ctx, r, time.Now()); err != nil {
			return uncertain, err
		}
		err := c.attempt(ctx, attempt)
		if err == nil {
			c.dependencies.worked(ctx, r)
			return uncertain, nil
		}
		if ctx.Err() != nil {
			return uncertain, context.Cause(ctx)
		}
		now := time.Now()
		if isUnavailable(err) {
			unavailable = now
		}
		again, effective := worthwhile(r, err, n, now.Sub(unavailable) < startTime || c.health.starting(now))
		blamed := c.blame(r, err)
		if !again && blamed == nil || effective && r.Once {
			return uncertain, err
		}
		uncertain = uncertain || effective
		if began.IsZero() {
			began = now
		}
		failing, silent := c.health.durations(now)
		switch {
		case silent > c.retryFor:
			return uncertain, fmt.Errorf("%w for %s: %w", ErrUnreachable, c.retryFor, err)
		case blamed != nil:
			isCore := isUnavailable(err) && blamed.group == ""
			if n >= warnAttempt && until.IsZero() && c.Stalled != nil && !isCore {
				var over func()
				until, over = c.Stalled(ctx, blamed.group)
				defer over()
			}
			if !until.IsZero() && !now.Before(until) {
				blamed.patience = min(blamed.patience, now.Sub(began))
			}
			if final := c.dependencies.failed(blamed, err, began, now); final != nil {
				return uncertain, final
			}
		case max(failing, now.Sub(began)) > c.retryFor:
			return uncertain, fmt.Errorf("gave up after %s of retries: %w", now.Sub(began).Round(time.Millisecond), err)
		}
		if n == warnAttempt {
			c.log.Warn("request to the API server failed repeatedly, trying again", "request", what, "error", err)
		} else {
			c.log.Debug("request to the API server failed, trying again", "request", what, "attempt", n, "error", err)
		}
		waiting.Failed(ctx, waitsFor(blamed, err), err)
		if pause(ctx, backoff, err, c.retryFor) != nil {
			return uncertain, context.Cause(ctx)
		}
	}
}

// waitsFor describes what a request waits for that has failed with err, because of blamed unless that is nil.
func waitsFor(blamed *dependency, err error) string {
	switch {
	case blamed != nil:
		return blamed.name + " to work"
	case isUnavailable(err):
		return "the API server to respond"
	default:
		return "the API server to serve a request"
	}
}

// attempt makes one attempt within attemptTimeout and records whether the API server responds.
func (c *Client) attempt(ctx context.Context, attempt func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err := attempt(limited)
	if ctx.Err() != nil {
		return err // which does not concern the server
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no reply in time: %v", err) // not wrapped: ctx has not ended
	}
	switch c.health.record(err, time.Now()) {
	case wentSilent:
		c.log.Warn("the API server does not respond, trying again", "error", err)
	case cameBack:
		c.log.Info("the API server responds again")
	}
	return err
}

// worthwhile reports whether another attempt after the n-th one may succeed, and whether the n-th may have
// taken effect. starting means that the server may have come back only a moment ago.
func worthwhile(r *Request, err error, n int, starting bool) (again, effective bool) {
	if errors.Is(err, ErrTooLarge) {
		return false, false
	}
	code, replied := statusCode(err)
	few := r.reads() || n < maxAttempts
	switch {
	case !replied:
		return !neverSent(err), !IsDialError(err) && !neverSent(err)
	case code == http.StatusTooManyRequests:
		return true, false
	case isUnavailable(err):
		return true, true
	case code == http.StatusConflict:
		return apierrors.IsConflict(err) && !r.Conditional && few, false
	case code == http.StatusNotFound:
		return PathNotFound(err) && (starting || r.New != nil && n < maxAttempts && r.New()), false
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return starting && !apierrors.HasStatusCause(err, "NamespaceTerminating"), false
	}
	return Transient(err) && few, true
}

// IsDialError reports whether no connection was made, so that the request cannot have taken effect.
func IsDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isUnavailable reports whether there is no API server behind the connection, or none that works yet.
func isUnavailable(err error) bool {
	code, replied := statusCode(err)
	return !replied && !neverSent(err) || code == http.StatusServiceUnavailable || code == http.StatusBadGateway
}

// statusCode returns the HTTP status of the reply that err stands for, and false if there was no complete
// reply.
func statusCode(err error) (code int, replied bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0, false
	}
	return int(status.Status().Code), true
}
