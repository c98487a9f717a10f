// Package calls holds what is the same for every call to a plugin, whether it goes to another process or stays in the
// server's own: its properties and deadlines, the errors by which it ends, the answers that are kept, the watch over a
// stream, and the metrics and spans that it is measured by.
//
// It may import versioning, output, gRPC, Prometheus and OpenTelemetry. Start reading at calls.go.
package calls
