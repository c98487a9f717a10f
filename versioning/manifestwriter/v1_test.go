package manifestwriter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

const name = "example.io/inventory"

// writer is an author's writer.
type writer func(context.Context, *mwv1.WriteInput, mwv1.Artifacts) error

// configured is a writer with its configuration.
type configured struct {
	write  writer
	config map[string]any
}

func (w configured) Write(ctx context.Context, input *mwv1.WriteInput) error {
	return w.write(context.WithValue(ctx, configKey{}, w.config), input, input.Artifacts)
}

// configKey is the key of the configuration in the context of a call.
type configKey struct{}

// author returns the hub over an author's implementation.
func author(t *testing.T, written writer) manifestwriter.Writer {
	t.Helper()
	return manifestwriter.V1().Bind(
		plugintest.Serve(t, mwv1.Register(name, func(_ context.Context, setup *framework.Setup) (mwv1.ManifestWriter, error) {
			return configured{write: written, config: framework.Config[map[string]any](setup)}, nil
		}, framework.WithConfig(map[string]any{}))), name)
}

// raw is a plugin that does what the framework would never do.
type raw struct {
	manifestwriterv1.UnimplementedManifestWriterServiceServer
	write func(grpc.BidiStreamingServer[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse]) error
}

func (r raw) Write(
	stream grpc.BidiStreamingServer[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse],
) error {
	return r.write(stream)
}

func (r raw) hub(t *testing.T) manifestwriter.Writer {
	t.Helper()
	return manifestwriter.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		manifestwriterv1.RegisterManifestWriterServiceServer(server, r)
	}), name)
}

// answer is a plugin that sends messages and then waits for the end of the items.
func answer(messages ...*manifestwriterv1.WriteResponse) raw {
	return raw{write: func(stream grpc.BidiStreamingServer[manifestwriterv1.WriteRequest,
		manifestwriterv1.WriteResponse]) error {
		for _, message := range messages {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		for {
			if _, err := stream.Recv(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	}}
}

func begins(artifact string) *manifestwriterv1.WriteResponse {
	return &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Artifact{
		Artifact: &manifestwriterv1.Artifact{Name: artifact},
	}}
}

func holds(content string) *manifestwriterv1.WriteResponse {
	return &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Content{Content: []byte(content)}}
}

func input() manifestwriter.Input {
	return manifestwriter.Input{Config: []byte(`{"deep":true}`), Backup: []byte(`{"metadata":{"name":"nightly"}}`)}
}

// kept holds the artifacts that arrived whole.
type kept map[string]string

func (k kept) keep(name string, content io.Reader) error {
	read, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	k[name] = string(read)
	return nil
}

// references are dependencies of an item.
func references() []manifest.Edge {
	return []manifest.Edge{
		{Type: manifest.Reference, Strict: true, To: manifest.Ref{Kind: "ConfigMap", Namespace: "shop", Name: "web",
			UID: "u-9"}, Path: "spec.x[1].name"},
		{Type: manifest.Action, To: manifest.Ref{Group: "g", Resource: "pods", Namespace: "shop", Name: "web-1-x"},
			Plugin: "example.io/pods"},
	}
}

func included() manifest.Inclusion {
	return manifest.Inclusion{By: manifest.ByAction, Plugin: "example.io/sets",
		Of: &manifest.Ref{Resource: "sets", Name: "s"}}
}

func TestWriterSeesEveryItemAndItsArtifactsAreKept(t *testing.T) {
	t.Parallel()
	item := &manifestwriter.Item{
		Group: "apps", Version: "v1", Resource: "replicasets", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1",
		UID:    "u-1",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"},
		Owners: []manifestwriter.Owner{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "u-0",
			Controller: true}, {Kind: "Other"}},
		Related:    []framework.ResourceIdentifier{{Resource: "pods", Namespace: "shop", Name: "web-1-x"}},
		References: references(), Included: included(),
		Object: []byte(`{"kind":"ReplicaSet"}`),
	}
	writer := author(t, func(ctx context.Context, input *mwv1.WriteInput, output mwv1.Artifacts) error {
		config, err := json.Marshal(ctx.Value(configKey{}))
		if err != nil {
			return err
		}
		first, err := output.Create("items.json")
		if err != nil {
			return err
		}
		encoder, count := json.NewEncoder(first), 0
		for item, err := range input.Items {
			if err != nil {
				return err
			}
			if err := encoder.Encode(item); err != nil {
				return err
			}
			count++
		}
		if _, err := output.Create("empty"); err != nil {
			return err
		}
		summary, err := output.Create("summary.txt")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(summary, "%d items of %s, %s", count, input.Backup.Name, config)
		return err
	})
	require.Equal(t, name, writer.Name())
	artifacts := kept{}
	manifest, err := writer.Begin(t.Context(), input(), artifacts.keep)
	require.NoError(t, err)
	require.NoError(t, manifest.Add(item))
	require.NoError(t, manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "nodes", Kind: "Node", Name: "n1"}))
	require.NoError(t, manifest.Finish())
	manifest.Abort()

	require.Len(t, artifacts, 3)
	require.Equal(t, `2 items of nightly, {"deep":true}`, artifacts["summary.txt"])
	require.Empty(t, artifacts["empty"])
	var got mwv1.Item
	line, _, _ := strings.Cut(artifacts["items.json"], "\n")
	require.NoError(t, json.Unmarshal([]byte(line), &got))
	require.Equal(t, mwv1.Item{
		Group: "apps", Version: "v1", Resource: "replicasets", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1",
		UID:    "u-1",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"},
		Owners: []mwv1.Owner{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "u-0", Controller: true},
			{Kind: "Other"}},
		Related:    []framework.ResourceIdentifier{{Resource: "pods", Namespace: "shop", Name: "web-1-x"}},
		References: references(), Included: included(),
		Object: []byte(`{"kind":"ReplicaSet"}`),
	}, got)
}

func TestArtifactsOfAnySizeArriveUnchanged(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 65535, 65536, 65537, 1 << 20} {
		content := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
		for _, write := range []int{1000, 1 << 20} {
			writer := author(t, func(_ context.Context, input *mwv1.WriteInput, output mwv1.Artifacts) error {
				artifact, err := output.Create("content")
				if err != nil {
					return err
				}
				for rest := content; len(rest) > 0; rest = rest[min(write, len(rest)):] {
					if n, err := artifact.Write(rest[:min(write, len(rest))]); err != nil || n != min(write, len(rest)) {
						return fmt.Errorf("wrote %d: %w", n, err)
					}
				}
				for _, err := range input.Items {
					if err != nil {
						return err
					}
				}
				return nil
			})
			artifacts := kept{}
			manifest, err := writer.Begin(t.Context(), input(), artifacts.keep)
			require.NoError(t, err)
			require.NoError(t, manifest.Finish())
			require.Equal(t, len(content), len(artifacts["content"]))
			require.Equal(t, string(content), artifacts["content"])
		}
	}
}

func TestItemsAndArtifactsFlowAtTheSameTime(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1000)
	writer := author(t, func(_ context.Context, input *mwv1.WriteInput, output mwv1.Artifacts) error {
		artifact, err := output.Create("lines")
		if err != nil {
			return err
		}
		for item, err := range input.Items {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(artifact, item.Name, line); err != nil {
				return err
			}
		}
		return nil
	})
	artifacts := kept{}
	manifest, err := writer.Begin(t.Context(), manifestwriter.Input{Backup: []byte("{}")}, artifacts.keep)
	require.NoError(t, err)
	const items = 2000 // 2 MB in each direction, more than any buffer between
	for i := range items {
		require.NoError(t, manifest.Add(&manifestwriter.Item{Resource: "pods", Name: fmt.Sprint(i),
			Labels: map[string]string{"x": line}}))
	}
	require.NoError(t, manifest.Finish())
	require.Equal(t, items, strings.Count(artifacts["lines"], "\n"))
}

func TestWriterErrorEndsManifest(t *testing.T) {
	t.Parallel()
	manifest, err := author(t, func(_ context.Context, input *mwv1.WriteInput, _ mwv1.Artifacts) error {
		for item, err := range input.Items {
			if err != nil {
				return err
			}
			return framework.Errorf("no place for %s", item.Name)
		}
		return errors.New("no items")
	}).Begin(t.Context(), input(), kept{}.keep)
	require.NoError(t, err)
	for err == nil { // until the plugin's error has arrived
		err = manifest.Add(&manifestwriter.Item{Name: "a"})
	}
	require.EqualError(t, err, "ManifestWriter(example.io/inventory): no place for a")
	require.Equal(t, err, manifest.Finish())
	var failed *versioning.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.File(), "v1_test.go")
}

func TestUnknownWriterFailsManifest(t *testing.T) {
	t.Parallel()
	conn := plugintest.Serve(t,
		mwv1.Register("example.io/other", func(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) {
			return nil, nil
		}))
	manifest, err := manifestwriter.V1().Bind(conn, name).Begin(t.Context(), input(), kept{}.keep)
	if err == nil {
		err = manifest.Finish()
	}
	require.ErrorContains(t, err, `no ManifestWriter "example.io/inventory" here`)
}

func TestWriterMustNotStopBeforeLastItem(t *testing.T) {
	t.Parallel()
	for want, writer := range map[string]manifestwriter.Writer{
		"Write returned without an error before it had seen all items": author(t,
			func(_ context.Context, input *mwv1.WriteInput, _ mwv1.Artifacts) error {
				for range input.Items {
					break
				}
				return nil
			}),
		"invalid reply: the plugin ended the manifest before it received all items": raw{write: func(stream grpc.BidiStreamingServer[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse]) error {
			_, err := stream.Recv()
			return err
		}}.hub(t),
	} {
		manifest, err := writer.Begin(t.Context(), input(), kept{}.keep)
		for err == nil {
			err = manifest.Add(&manifestwriter.Item{Name: "a"})
		}
		require.ErrorContains(t, err, "ManifestWriter(example.io/inventory): "+want)
	}
}

func TestWriterMayStopAfterLastItem(t *testing.T) {
	t.Parallel()
	manifest, err := author(t, func(_ context.Context, input *mwv1.WriteInput, _ mwv1.Artifacts) error {
		for item, err := range input.Items {
			if err != nil || item.Name == "last" {
				return err
			}
		}
		return errors.New("the last item did not come")
	}).Begin(t.Context(), input(), kept{}.keep)
	require.NoError(t, err)
	require.NoError(t, manifest.Add(&manifestwriter.Item{Name: "first"}))
	require.NoError(t, manifest.Add(&manifestwriter.Item{Name: "last"}))
	require.NoError(t, manifest.Finish())
}

func TestWriterSeesAbortedManifest(t *testing.T) {
	t.Parallel()
	began, left := make(chan struct{}), make(chan error, 1)
	manifest, err := author(t, func(_ context.Context, input *mwv1.WriteInput, _ mwv1.Artifacts) error {
		close(began)
		for _, err := range input.Items {
			if err != nil {
				left <- err
				return err
			}
		}
		left <- errors.New("ended as if it were complete")
		return nil
	}).Begin(t.Context(), input(), kept{}.keep)
	require.NoError(t, err)
	<-began
	manifest.Abort()
	require.ErrorContains(t, <-left, "context canceled")
	require.ErrorIs(t, manifest.Finish(), context.Canceled)
}

func TestEndOfContextAbortsManifest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	broken := make(chan error, 1)
	manifest, err := answer(begins("a"), holds("x")).hub(t).Begin(ctx, input(), func(_ string, content io.Reader) error {
		if _, err := content.Read(make([]byte, 1)); err != nil {
			return err
		}
		cancel()
		_, err := content.Read(make([]byte, 1))
		broken <- err
		return err
	})
	require.NoError(t, err)
	require.ErrorContains(t, <-broken, "context canceled", "an artifact that breaks off has no end")
	require.ErrorIs(t, manifest.Finish(), context.Canceled)
}

func TestKeepErrorEndsManifest(t *testing.T) {
	t.Parallel()
	full := errors.New("bucket is full")
	manifest, err := answer(begins("a"), holds("x")).hub(t).Begin(t.Context(), input(),
		func(string, io.Reader) error { return full })
	require.NoError(t, err)
	err = manifest.Finish()
	require.ErrorIs(t, err, full)
	require.EqualError(t, err, "ManifestWriter(example.io/inventory): keep artifact a: bucket is full")
}

func TestUnreadArtifactContentIsSkipped(t *testing.T) {
	t.Parallel()
	var seen []string
	manifest, err := answer(begins("a"), holds("x"), holds("y"), begins("b"), holds("z")).hub(t).Begin(t.Context(),
		input(), func(name string, _ io.Reader) error {
			seen = append(seen, name)
			return nil
		})
	require.NoError(t, err)
	require.NoError(t, manifest.Finish())
	require.Equal(t, []string{"a", "b"}, seen)
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	t.Parallel()
	for want, messages := range map[string][]*manifestwriterv1.WriteResponse{
		"there is content before the first artifact": {holds("x"), begins("a")},
		`artifact name "../a" must be`:               {begins("../a"), holds("x")},
		`artifact name "" must be`:                   {begins("")},
		`artifact "a" is there twice`:                {begins("a"), begins("b"), begins("a")},
	} {
		manifest, err := answer(messages...).hub(t).Begin(t.Context(), input(), kept{}.keep)
		require.NoError(t, err)
		err = manifest.Finish()
		require.ErrorIs(t, err, versioning.ErrInvalidReply)
		require.ErrorContains(t, err, "ManifestWriter(example.io/inventory): invalid reply: "+want)
	}
}

func TestCompleteArtifactAcceptsNoMoreContent(t *testing.T) {
	t.Parallel()
	manifest, err := author(t, func(_ context.Context, _ *mwv1.WriteInput, output mwv1.Artifacts) error {
		first, err := output.Create("a")
		if err != nil {
			return err
		}
		if _, err := output.Create("b"); err != nil {
			return err
		}
		_, err = io.WriteString(first, "late")
		return err
	}).Begin(t.Context(), input(), kept{}.keep)
	require.NoError(t, err)
	require.EqualError(t, manifest.Finish(), "ManifestWriter(example.io/inventory): artifact a is complete and takes no "+
		"more")
}

func TestFrameworkRejectsCallWithoutBegin(t *testing.T) {
	t.Parallel()
	client := manifestwriterv1.NewManifestWriterServiceClient(
		plugintest.Serve(t, mwv1.Register(name, func(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) {
			return nil, errors.New("never made")
		})))
	for _, first := range []*manifestwriterv1.WriteRequest{nil, {},
		{Part: &manifestwriterv1.WriteRequest_Items{Items: &manifestwriterv1.Items{Items: []*manifestwriterv1.Item{{}}}}}} {
		stream, err := client.Write(t.Context())
		require.NoError(t, err)
		if first != nil {
			require.NoError(t, stream.Send(first))
		}
		require.NoError(t, stream.CloseSend())
		_, err = stream.Recv()
		require.ErrorContains(t, err, "the first message must say which backup begins")
	}
}
