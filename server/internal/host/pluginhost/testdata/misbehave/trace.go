package main

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// traceparent returns the span of the caller in the metadata of the call.
func traceparent(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "traceparent"), " ")
}
