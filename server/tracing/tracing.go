package tracing

import (
	"context"
	"fmt"
	"net/url"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// New is a tracer that sends all spans to the OTLP receiver (gRPC) at endpoint, e.g. "http://collector:4317"; with
// https the receiver's certificate must be good. version is the server's. It connects in the background: a
// receiver that is not there costs spans, which is logged, and nothing else. Shutdown of what it returns sends
// what is left, for as long as its context allows.
func New(ctx context.Context, endpoint, version string, log hclog.Logger) (*sdktrace.TracerProvider, error) {
	if err := CheckEndpoint(endpoint); err != nil {
		return nil, err
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("connect to the OTLP receiver %s: %w", endpoint, err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&logged{SpanExporter: exporter, endpoint: endpoint, log: log}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "cleat"),
			attribute.String("service.version", version),
		)),
	), nil
}

// CheckEndpoint says what is wrong with an endpoint.
func CheckEndpoint(endpoint string) error {
	const want = `want the URL of an OTLP receiver that speaks gRPC, like "http://collector:4317"`
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("endpoint %q is no URL, %s: %w", endpoint, want, err)
	case parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Host == "":
		return fmt.Errorf("endpoint %q: %s", endpoint, want)
	case parsed.Path != "" && parsed.Path != "/", parsed.RawQuery != "", parsed.User != nil:
		return fmt.Errorf("endpoint %q has more than a host and a port, %s", endpoint, want)
	}
	return nil
}

// logged logs the spans that could not be sent. OpenTelemetry itself has one handler for such errors in the whole
// process.
type logged struct {
	sdktrace.SpanExporter
	endpoint string
	log      hclog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (l *logged) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn("spans could not be sent, they are lost", "endpoint", l.endpoint, "spans", len(spans), "error", err)
	}
	return nil
}
