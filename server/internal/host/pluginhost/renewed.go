package pluginhost

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
)

// renewed is a connection to a built-in that serves a location in the server's process. It makes the built-in anew when
// files have changed that it may have read.
type renewed struct {
	inputs *process.Inputs
	make   func(context.Context) (grpc.ClientConnInterface, error)
	turn   chan struct{} // holds a token while the fields below are used

	made    grpc.ClientConnInterface // nil if there is none
	version int64                    // of the inputs that it may have read
}

// current returns the built-in that has read the current files.
func (r *renewed) current(ctx context.Context) (grpc.ClientConnInterface, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a built-in to be initialised: %w", context.Cause(ctx))
	}
	version := r.inputs.Version()
	if r.made != nil && r.version == version {
		return r.made, nil
	}
	made, err := r.make(ctx)
	if err != nil {
		return nil, err
	}
	r.made, r.version = made, version
	return made, nil
}

// Invoke implements grpc.ClientConnInterface.
func (r *renewed) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := r.current(ctx)
	if err != nil {
		return err
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (r *renewed) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, desc, method, opts...)
}
