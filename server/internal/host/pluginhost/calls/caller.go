package calls

import (
	"context"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Caller is the run on whose behalf a call is made. The zero value stands for no run.
type Caller struct {
	Run string // its identity
	// Waits is set if the run waits for work that goes on in the process after the call.
	Waits bool
}

type callerKey struct{}

// WithCaller returns a context for calls on behalf of a run.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns the run on whose behalf calls with ctx are made.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// Marked returns the context with which a call tells the plugin for which run it is made.
func Marked(ctx context.Context) context.Context {
	if caller := CallerOf(ctx); caller.Run != "" {
		return hostapi.ForRun(ctx, caller.Run)
	}
	return ctx
}
