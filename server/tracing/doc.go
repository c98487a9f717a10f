// Package tracing sends the server's spans to an OpenTelemetry collector. Without an endpoint there is no tracing and
// nothing of it is called.
//
// It may import OpenTelemetry and gRPC; nothing of ours. Start reading at tracing.go.
package tracing
