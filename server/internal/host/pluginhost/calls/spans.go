package calls

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

const tracerName = "github.com/cleat-dev/cleat/server/internal/host/pluginhost"

// NewTracer returns nil without a provider.
func NewTracer(provider trace.TracerProvider) trace.Tracer {
	if provider == nil {
		return nil
	}
	return provider.Tracer(tracerName)
}

// runKey is the key of the attribute that names the run for which a call is made.
type runKey struct{}

// StartRun begins the span of the run named by kind and name, e.g. "Backup" and "velero/nightly". Calls that are made
// with the context it returns are children of that span and name the run.
func StartRun(ctx context.Context, tracer trace.Tracer, kind, name string) (context.Context, trace.Span) {
	what := attribute.String("cleat."+strings.ToLower(kind), name)
	ctx, span := tracer.Start(ctx, kind, trace.WithAttributes(what))
	return context.WithValue(ctx, runKey{}, what), span
}

// startSpan begins the span of one call. Its identity is sent to the plugin in the metadata of the call, as the W3C
// trace context.
func startSpan(ctx context.Context, tracer trace.Tracer, plugin, command string, c Call) (context.Context, trace.Span) {
	attributes := []attribute.KeyValue{
		attribute.String("cleat.plugin", plugin),
		attribute.String("cleat.kind", c.Kind),
		attribute.String("cleat.call", c.Name),
		attribute.String("cleat.command", command),
	}
	if what, ok := ctx.Value(runKey{}).(attribute.KeyValue); ok {
		attributes = append(attributes, what)
	}
	ctx, span := tracer.Start(ctx, c.Kind+"/"+c.Name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attributes...))
	sent := outgoing{}
	propagation.TraceContext{}.Inject(ctx, &sent)
	return metadata.AppendToOutgoingContext(ctx, sent...), span
}

func endSpan(span trace.Span, outcome string, err error) {
	span.SetAttributes(attribute.String("cleat.outcome", outcome))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// outgoing collects metadata as alternating keys and values.
type outgoing []string

// Set implements propagation.TextMapCarrier.
func (o *outgoing) Set(key, value string) { *o = append(*o, key, value) }

// Get implements propagation.TextMapCarrier.
func (o *outgoing) Get(string) string { return "" }

// Keys implements propagation.TextMapCarrier.
func (o *outgoing) Keys() []string { return nil }
