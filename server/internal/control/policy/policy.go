package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning"
)

// policy is one policy in force.
type policy struct {
	kind     string
	settings config.Policy // all set
	builtIn  string        // the plugin that may decide instead
	host     *pluginhost.Host
	log      hclog.Logger
	health   *health

	mu      sync.Mutex
	schema  []byte // against which the config was last checked
	refused error  // the result of that check
}

// Outcome is a decision, and the plugin that made it.
type Outcome[D any] struct {
	Decision D
	// By is the name of the plugin that decided.
	By string
	// Failure is why the built-in policy decided instead of the configured one; nil if it did not.
	Failure error
}

// ErrHeld is wrapped by the error of a decision that was not made because the plugin failed and its failurePolicy is
// Hold. The objects of the decision continue to wait; ask again when something changes, and after RetryAfter.
var ErrHeld = errors.New("held")

// RetryAfter is the time until the next attempt after ErrHeld.
const RetryAfter = 10 * time.Second

// HeldError is ErrHeld with an explanation for users.
type HeldError struct {
	Status serverreport.Policy
	Cause  error
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("held (failurePolicy: %s): %v", e.Status.FailurePolicy, e.Cause)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld } //nolint:errorlint // errors.Is calls this method

// Unwrap returns the failure.
func (e *HeldError) Unwrap() error { return e.Cause }

// question is a call of a policy. H is the hub of its kind, D the decision.
type question[H, D any] struct {
	call string // its name on the wire
	kind versioning.Kind[H]
	ask  func(ctx context.Context, plugin H, configured []byte) (D, error) // calls the plugin with its config
}

// decide calls a policy. The error is a *HeldError, or the error of ctx when the caller has given up, which is not the
// plugin's fault.
func decide[H, D any](ctx context.Context, p *policy, q question[H, D]) (Outcome[D], error) {
	call := func(name string, configured config.Object) (D, error) {
		var none D
		entry, err := p.find(p.host.Find, name, configured)
		if err != nil {
			return none, err
		}
		plugin, err := pluginhost.Named(p.host, q.kind, name)
		if err != nil {
			return none, unavailable(p.kind, name, err)
		}
		limit := p.settings.Deadline.Std()
		ctx, cancel := context.WithTimeoutCause(calls.WithDeadline(ctx, limit), limit,
			&calls.OverdueError{Plugin: name, Command: entry.Command, During: q.call, Limit: limit})
		defer cancel()
		return q.ask(ctx, plugin, configured.Bytes())
	}
	decision, err := call(p.settings.Plugin, p.settings.Config)
	if err != nil && ctx.Err() != nil {
		return Outcome[D]{}, fmt.Errorf("ask %s %s: %w", p.kind, p.settings.Plugin, context.Cause(ctx))
	}
	if err == nil {
		p.health.report(nil, p.settings.Plugin)
		return Outcome[D]{Decision: decision, By: p.settings.Plugin}, nil
	}
	cause := err
	if instead := p.instead(); instead != "" {
		decision, errBuiltIn := call(instead, config.Object{})
		if errBuiltIn == nil {
			p.health.report(err, instead)
			return Outcome[D]{Decision: decision, By: instead, Failure: err}, nil
		}
		cause = fmt.Errorf("%w; and the built-in one in its place: %w", err, errBuiltIn)
	}
	return Outcome[D]{}, &HeldError{Status: p.health.report(err, ""), Cause: cause}
}

// instead returns the plugin that decides when the configured one fails, or "" if there is none.
func (p *policy) instead() string {
	if p.settings.FailurePolicy == config.UseBuiltIn && p.settings.Plugin != p.builtIn {
		return p.builtIn
	}
	return ""
}

// status returns the state of the policy in the last call. If the call succeeded, the plugin is looked up again,
// because it may have been removed since.
func (p *policy) status() serverreport.Policy {
	status := p.health.now()
	if !status.Working() {
		return status
	}
	if _, err := p.find(p.host.Find, p.settings.Plugin, p.settings.Config); err != nil {
		status.Reason, status.Message, status.Since = ReasonOf(err), err.Error(), time.Time{}
		status.Decides = p.instead()
	}
	return status
}

// find returns the entry of a plugin, and an error if it does not exist or does not accept its config. lookup is the
// method of the host or of a session.
func (p *policy) find(
	lookup func(kind, name string) (pluginhost.Entry, error), name string, configured config.Object,
) (pluginhost.Entry, error) {
	entry, err := lookup(p.kind, name)
	if err != nil {
		return entry, unavailable(p.kind, name, err)
	}
	if name == p.settings.Plugin {
		err = p.takes(entry.ConfigSchema, configured)
	}
	return entry, err
}

// takes returns an error if the config does not match the schema. The result for the last schema is cached.
func (p *policy) takes(schema []byte, configured config.Object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(schema) == 0 {
		return nil
	}
	if bytes.Equal(schema, p.schema) {
		return p.refused
	}
	p.schema, p.refused = schema, nil
	err := configured.Check(schema)
	var broken *config.BrokenSchemaError
	switch {
	case errors.As(err, &broken):
		p.log.Warn("the config of a policy is not checked", "reason", broken)
	case err != nil:
		p.refused = &configError{versioning.NewPlugin(p.kind,
			p.settings.Plugin).Wrap(fmt.Errorf("it does not take its config: %w", err))}
	}
	return p.refused
}

// unavailableError is set if a plugin does not exist, or is left out.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

func unavailable(kind, name string, err error) error {
	return &unavailableError{versioning.NewPlugin(kind, name).Wrap(err)}
}

// configError is set if a plugin does not accept its config any more.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }
