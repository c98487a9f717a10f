// Package calls holds what all calls to plugins have in common, whether they go to another process or stay in the
// server: their properties and deadlines, their errors, the replies that are kept, the watch of a stream, and their
// metrics and spans.
//
// It may import versioning, output, gRPC, Prometheus and OpenTelemetry. Start reading at calls.go.
package calls
