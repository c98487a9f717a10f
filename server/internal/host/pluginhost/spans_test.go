package pluginhost

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// recorder returns a tracer that keeps all spans.
func recorder(t *testing.T) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	return provider, spans
}

// called returns the spans of the calls of a kind, in their order.
func called(spans *tracetest.InMemoryExporter, kind string) []tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, span := range spans.GetSpans() {
		if attributeOf(span, "cleat.kind") == kind {
			found = append(found, span)
		}
	}
	return found
}

func attributeOf(span tracetest.SpanStub, key attribute.Key) string {
	set := attribute.NewSet(span.Attributes...)
	value, _ := set.Value(key)
	return value.AsString()
}

func parentOf(span trace.SpanContext) string {
	return "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-01"
}

func TestCallsHaveSpansThatPluginsCanContinue(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) { c.Tracer = provider })
	session := h.Session("", hclog.NewNullLogger())
	ctx := session.Trace(t.Context(), "Backup", "velero/nightly")
	action := actionNamed(t, session, "example.io/behave")
	for range 2 {
		_, err := action.AppliesTo(ctx)
		require.NoError(t, err)
	}
	annotations, err := execute(ctx, action, "trace")
	require.NoError(t, err)
	_, err = execute(ctx, action, "fail")
	require.Error(t, err)
	_, err = execute(ctx, action, "rename")
	require.Error(t, err)
	_, err = execute(ctx, action, "exit")
	require.Error(t, err)
	session.Close()
	_, err = execute(t.Context(), h.behave(t), "nothing")
	require.NoError(t, err)

	all := called(spans, "BackupItemAction")
	require.Len(t, all, 6, "AppliesTo was called once")
	run := all[0].Parent.SpanID()
	require.True(t, run.IsValid())
	for i, want := range []struct {
		call, outcome string
		status        codes.Code
	}{
		{"AppliesTo", "ok", codes.Unset}, {"Execute", "ok", codes.Unset},
		{"Execute", "error", codes.Error}, {"Execute", "invalid", codes.Error},
		{"Execute", "died", codes.Error},
	} {
		require.Equal(t, "BackupItemAction/"+want.call, all[i].Name)
		require.Equal(t, trace.SpanKindClient, all[i].SpanKind)
		require.Equal(t, want.call, attributeOf(all[i], "cleat.call"))
		require.Equal(t, want.outcome, attributeOf(all[i], "cleat.outcome"))
		require.Equal(t, want.status, all[i].Status.Code)
		require.Equal(t, "example.io/behave", attributeOf(all[i], "cleat.plugin"))
		require.Equal(t, h.dir+"/behave", attributeOf(all[i], "cleat.command"))
		require.Equal(t, "velero/nightly", attributeOf(all[i], "cleat.backup"))
		require.Equal(t, run, all[i].Parent.SpanID(), "all are children of the run")
	}
	require.Equal(t, parentOf(all[1].SpanContext), annotations["traceparent"], "as the W3C writes it")
	require.Contains(t, all[4].Status.Description, "died during Execute")
	require.False(t, all[5].Parent.IsValid())
	require.Empty(t, attributeOf(all[5], "cleat.backup"))

	var whole tracetest.SpanStub
	for _, span := range spans.GetSpans() {
		if span.SpanContext.SpanID() == run {
			whole = span
		}
	}
	require.Equal(t, "Backup", whole.Name, "it has ended with the session")
	require.Equal(t, "velero/nightly", attributeOf(whole, "cleat.backup"))
	require.Empty(t, called(spans, "PluginLister"), "listing the plugins of a process is not observed")
}

func TestStreamsAndInitHaveSpans(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) { c.Tracer = provider })
	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "b"})
	require.NoError(t, err)
	reader, err := store.GetObject(t.Context(), "b", "missing")
	if err == nil {
		_, err = readAll(reader)
	}
	require.Error(t, err)
	all := called(spans, "ObjectStore")
	require.Len(t, all, 2)
	require.Equal(t, "ObjectStore/Init", all[0].Name)
	require.Equal(t, "ObjectStore/GetObject", all[1].Name)
	require.Equal(t, "error", attributeOf(all[1], "cleat.outcome"))
}

// traced is a built-in that keeps the metadata of its calls.
type traced struct{ seen chan metadata.MD }

func (traced) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (a traced) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	received, _ := metadata.FromIncomingContext(ctx)
	a.seen <- received
	return biav1.NewExecuteOutput(input.Item), nil
}

func TestBuiltInsReceiveTraceContext(t *testing.T) {
	t.Parallel()
	for name, tracing := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, spans := recorder(t)
			action := traced{seen: make(chan metadata.MD, 1)}
			config := Config{Log: hclog.NewNullLogger(), BuiltIns: []framework.Registration{
				biav1.Register("cleat.dev/traced", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
					return action, nil
				}),
			}}
			if tracing {
				config.Tracer = provider
			}
			host, err := New(t.Context(), config)
			require.NoError(t, err)
			defer host.Close()
			session := host.Session("", hclog.NewNullLogger())
			defer session.Close()
			_, err = execute(session.Trace(t.Context(), "Restore", "velero/r"), All(session, kinds.BackupItemActions()...)[0],
				"nothing")
			require.NoError(t, err)
			if !tracing {
				require.Empty(t, (<-action.seen).Get("traceparent"))
				require.Empty(t, spans.GetSpans())
				return
			}
			all := called(spans, "BackupItemAction")
			require.Len(t, all, 1)
			require.Equal(t, "velero/r", attributeOf(all[0], "cleat.restore"))
			require.Equal(t, "built-in", attributeOf(all[0], "cleat.command"))
			require.Equal(t, []string{parentOf(all[0].SpanContext)}, (<-action.seen).Get("traceparent"))
		})
	}
}
