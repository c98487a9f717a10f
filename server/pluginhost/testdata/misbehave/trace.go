package main

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// traceparent is the caller's span as the call's metadata names it.
func traceparent(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "traceparent"), " ")
}
