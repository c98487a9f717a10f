// Package tracing sends the server's spans to an OpenTelemetry collector. The server does not use it if no endpoint is
// configured.
//
// The package may import OpenTelemetry and gRPC, and no other package of the server. Start reading at tracing.go.
package tracing
