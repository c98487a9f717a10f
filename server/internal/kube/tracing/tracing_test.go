package tracing_test

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/tracing"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// receiver is a simulated OTLP receiver.
type receiver struct {
	collectorv1.UnimplementedTraceServiceServer
	got    chan *collectorv1.ExportTraceServiceRequest
	refuse error
}

func (r *receiver) Export(
	_ context.Context, req *collectorv1.ExportTraceServiceRequest,
) (*collectorv1.ExportTraceServiceResponse, error) {
	r.got <- req
	return &collectorv1.ExportTraceServiceResponse{}, r.refuse
}

// newReceiver starts a receiver and returns it with its endpoint.
func newReceiver(t *testing.T) (*receiver, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &receiver{got: make(chan *collectorv1.ExportTraceServiceRequest, 16)}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return r, "http://" + listener.Addr().String()
}

type stamp struct{}

func (stamp) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (stamp) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return biav1.NewExecuteOutput(input.Item), nil
}

func texts(attributes []*commonv1.KeyValue) map[string]string {
	values := map[string]string{}
	for _, attribute := range attributes {
		values[attribute.GetKey()] = attribute.GetValue().GetStringValue()
	}
	return values
}

func TestPluginCallsReachReceiver(t *testing.T) {
	t.Parallel()
	r, endpoint := newReceiver(t)
	provider, err := tracing.New(t.Context(), endpoint, "v1.2.3", hclog.NewNullLogger())
	require.NoError(t, err)
	host, err := pluginhost.New(t.Context(), pluginhost.Config{
		Log: hclog.NewNullLogger(), Tracer: provider,
		BuiltIns: []framework.Registration{
			biav1.Register("cleat.dev/stamp", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
				return stamp{}, nil
			}),
		},
	})
	require.NoError(t, err)
	defer host.Close()
	session := host.Session("", hclog.NewNullLogger())
	_, err = pluginhost.All(session, kinds.BackupItemActions()...)[0].Execute(session.Trace(t.Context(), "Backup",
		"velero/nightly"),
		[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`), []byte(`{}`))
	require.NoError(t, err)
	session.Close()
	require.NoError(t, provider.Shutdown(t.Context()), "Shutdown must send the remaining spans")

	resource := (<-r.got).GetResourceSpans()[0]
	require.Equal(t, map[string]string{"service.name": "cleat", "service.version": "v1.2.3"},
		texts(resource.GetResource().GetAttributes()))
	spans := map[string]*tracev1.Span{}
	for _, span := range resource.GetScopeSpans()[0].GetSpans() {
		spans[span.GetName()] = span
	}
	require.Contains(t, spans, "BackupItemAction/Execute")
	require.Contains(t, spans, "Backup")
	require.Equal(t, spans["Backup"].GetSpanId(), spans["BackupItemAction/Execute"].GetParentSpanId())
	attributes := texts(spans["BackupItemAction/Execute"].GetAttributes())
	require.Equal(t, "cleat.dev/stamp", attributes["cleat.plugin"])
	require.Equal(t, "velero/nightly", attributes["cleat.backup"])
}

func TestRefusedSpansAreLogged(t *testing.T) {
	t.Parallel()
	r, endpoint := newReceiver(t)
	r.refuse = status.Error(codes.PermissionDenied, "no such tenant")
	var log bytes.Buffer
	provider, err := tracing.New(t.Context(), endpoint, "v1", hclog.New(&hclog.LoggerOptions{Output: &log}))
	require.NoError(t, err)
	_, span := provider.Tracer("test").Start(t.Context(), "lost")
	span.End()
	require.NoError(t, provider.Shutdown(t.Context()))
	require.Contains(t, log.String(), "could not send spans, dropped them: endpoint="+endpoint+" spans=1")
	require.Contains(t, log.String(), "no such tenant")
}

func TestCheckEndpoint(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"http://collector:4317":       "",
		"https://collector.shop:4317": "",
		"http://[::1]:4317/":          "",
		"":                            `endpoint "": want the URL`,
		"collector:4317":              `endpoint "collector:4317": want the URL of an OTLP receiver with gRPC, such as "http://collector:4317"`,
		"grpc://collector:4317":       "want the URL",
		"http://":                     "want the URL",
		"http://a:4317/v1/traces":     "has more than a host and a port",
		"http://u:p@a:4317":           "has more than a host and a port",
		"http://a:%":                  "is not a URL",
	} {
		err := tracing.CheckEndpoint(endpoint)
		if want == "" {
			require.NoError(t, err, endpoint)
			continue
		}
		require.ErrorContains(t, err, want)
		_, err = tracing.New(t.Context(), endpoint, "v1", hclog.NewNullLogger())
		require.ErrorContains(t, err, want)
	}
}
