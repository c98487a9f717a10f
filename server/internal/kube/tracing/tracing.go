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

// New returns a tracer provider that sends all spans over gRPC to the OTLP receiver at endpoint, e.g.
// "http://collector:4317". With https, the receiver's certificate must be valid. version is the version of the server.
// New does not wait for the connection: spans that cannot be sent are dropped and logged. The provider's Shutdown sends
// the remaining spans until its context ends.
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

// CheckEndpoint returns an error if endpoint is not a valid endpoint.
func CheckEndpoint(endpoint string) error {
	const want = `want the URL of an OTLP receiver with gRPC, such as "http://collector:4317"`
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("endpoint %q is not a URL, %s: %w", endpoint, want, err)
	case parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Host == "":
		return fmt.Errorf("endpoint %q: %s", endpoint, want)
	case parsed.Path != "" && parsed.Path != "/", parsed.RawQuery != "", parsed.User != nil:
		return fmt.Errorf("endpoint %q has more than a host and a port, %s", endpoint, want)
	}
	return nil
}

// logged is an exporter that logs its errors. OpenTelemetry itself only has one error handler for the whole process.
type logged struct {
	sdktrace.SpanExporter
	endpoint string
	log      hclog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (l *logged) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn("could not send spans, dropped them", "endpoint", l.endpoint, "spans", len(spans), "error", err)
	}
	return nil
}
