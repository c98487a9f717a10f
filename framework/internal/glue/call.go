package glue

import (
	"context"
	"os"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const (
	// RunMetadata is the key of gRPC metadata in which a host sends the identity of the run that makes a call.
	RunMetadata = "cleat-run"
	// IfAbsentMetadata is the key of gRPC metadata by which a host asks a store not to replace an object.
	IfAbsentMetadata = "cleat-if-absent"
	// RunKey is the key of a log line that names the run of the line. Hosts remove it.
	RunKey = "@cleat-run"
)

// call is one call that the process handles.
type call struct {
	run string       // as the host names it; empty if the host does not
	log hclog.Logger // the process's at first, the implementation's once that is found
}

// callKey is the key of a *call in contexts.
type callKey struct{}

// callOf returns the call to which ctx belongs, or nil.
func callOf(ctx context.Context) *call {
	found, _ := ctx.Value(callKey{}).(*call)
	return found
}

// withCall returns the context of a new call.
func withCall(ctx context.Context, log hclog.Logger) context.Context {
	begun := &call{log: log}
	if sent := metadata.ValueFromIncomingContext(ctx, RunMetadata); len(sent) > 0 {
		begun.run = sent[0]
	}
	return context.WithValue(ctx, callKey{}, begun)
}

// Log returns the logger of the call that ctx belongs to. Outside of calls it writes to the standard error.
func Log(ctx context.Context) hclog.Logger {
	call := callOf(ctx)
	switch {
	case call == nil:
		return NewLogger(os.Stderr, hclog.Info)
	case call.run == "":
		return call.log
	default:
		return call.log.With(RunKey, call.run)
	}
}

// IfAbsent reports whether the caller asks a store not to replace an object.
func IfAbsent(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, IfAbsentMetadata)) > 0
}

// RunOf returns the identity of the run that makes the call, or "".
func RunOf(ctx context.Context) string {
	if begun := callOf(ctx); begun != nil {
		return begun.run
	}
	return ""
}

// callStream is a stream whose context is that of a call.
type callStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s callStream) Context() context.Context { return s.ctx }
