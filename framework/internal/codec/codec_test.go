package codec

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// text returns that many bytes, which do not repeat soon.
func text(size int) []byte {
	filled := make([]byte, size)
	for i := range filled {
		filled[i] = byte(i * 7 % 251)
	}
	return filled
}

// inPieces returns raw in pieces, as a transport delivers it.
func inPieces(raw []byte, size int) (data mem.BufferSlice) {
	for len(raw) > size {
		data, raw = append(data, mem.SliceBuffer(raw[:size])), raw[size:]
	}
	return append(data, mem.SliceBuffer(raw))
}

func TestCodecMatchesProtobufForAllSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, large - 100, large, large + 1, 20 * large} {
		unknown := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), text(size))
		execute := &backupitemactionv2.ExecuteRequest{Plugin: "example.io/a", Item: text(size), Backup: text(size / 2)}
		newer := &backupitemactionv2.ExecuteRequest{Item: text(size)}
		newer.ProtoReflect().SetUnknown(unknown)
		listed := &pluginlisterv1.ListPluginsResponse{}
		for len(listed.GetPlugins()) < size/20 {
			listed.Plugins = append(listed.Plugins, &pluginlisterv1.PluginIdentifier{Kind: "BackupItemAction", Name: "example.io/a"})
		}
		content := &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Content{Content: text(size)}}
		for _, message := range []proto.Message{execute, newer, listed, content, &shared.Empty{}} {
			t.Run(fmt.Sprintf("%T of %d", message, size), func(t *testing.T) {
				t.Parallel()
				codec := New()
				sent, err := codec.Marshal(message)
				require.NoError(t, err)
				raw := sent.Materialize()
				sent.Free()
				plain := message.ProtoReflect().New().Interface()
				require.NoError(t, proto.Unmarshal(raw, plain))
				require.True(t, proto.Equal(message, plain), "what the other side reads")

				received := message.ProtoReflect().New().Interface()
				require.NoError(t, codec.Unmarshal(inPieces(raw, 16<<10), received))
				require.True(t, proto.Equal(message, received), "what this side reads")
			})
		}
	}
}

func TestReusedBufferHoldsOnlyNewMessage(t *testing.T) {
	t.Parallel()
	codec := New()
	for _, size := range []int{4 * large, large, 2 * large, 5 * large} {
		message := &backupitemactionv2.ExecuteResponse{Item: text(size)}
		sent, err := codec.Marshal(message)
		require.NoError(t, err)
		want, err := proto.Marshal(message)
		require.NoError(t, err)
		require.Equal(t, want, sent.Materialize())
		sent.Free()
	}
}

func TestLargeFieldIsNotCopiedAndHasNoSpareCapacity(t *testing.T) {
	t.Parallel()
	raw, err := proto.Marshal(&backupitemactionv2.ExecuteRequest{Item: text(large), Backup: []byte("{}")})
	require.NoError(t, err)
	var received backupitemactionv2.ExecuteRequest
	require.NoError(t, (&codec{large: large}).unmarshal(raw, &received))
	at := bytes.Index(raw, received.GetItem())
	require.Same(t, &raw[at], &received.GetItem()[0])
	_ = append(received.GetItem(), "more"...)
	require.Equal(t, "{}", string(received.GetBackup()))
	require.Equal(t, "{}", string(raw[len(raw)-2:]), "what is appended to the field does not run into the next")
}

func TestInvalidMessageIsRefused(t *testing.T) {
	t.Parallel()
	codec := New()
	_, err := codec.Marshal("text")
	require.ErrorContains(t, err, "want proto.Message")
	require.ErrorContains(t, codec.Unmarshal(nil, new(string)), "want proto.Message")
	_, err = codec.Marshal(&backupitemactionv2.ExecuteRequest{Plugin: "\xff", Item: text(large)})
	require.ErrorContains(t, err, "invalid UTF-8")
	raw, err := proto.Marshal(&backupitemactionv2.ExecuteRequest{Item: text(large)})
	require.NoError(t, err)
	for _, broken := range [][]byte{raw[:len(raw)-1], append(raw, 0xff), append(raw, '\n', 1, 0xff)} {
		require.Error(t, codec.Unmarshal(inPieces(broken, 16<<10), &backupitemactionv2.ExecuteRequest{}))
	}
}

// FuzzUnmarshal compares the codec with protobuf's own. Fields count as large from 4 bytes on.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []proto.Message{
		&backupitemactionv2.ExecuteRequest{Plugin: "example.io/a", Item: []byte("an item"), Backup: []byte("{}")},
		&manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Content{Content: []byte("content")}},
	} {
		raw, err := proto.Marshal(seed)
		require.NoError(f, err)
		f.Add(raw)
		f.Add(append(raw, raw...))
		f.Add(append(raw, "\x12\x01a\x12\x00\x1a\x05backup"...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, want := range []proto.Message{&backupitemactionv2.ExecuteRequest{}, &manifestwriterv1.WriteResponse{}} {
			got := want.ProtoReflect().New().Interface()
			err := proto.Unmarshal(raw, want)
			gotErr := (&codec{large: 4}).unmarshal(bytes.Clone(raw), got)
			require.Equal(t, err == nil, gotErr == nil, "%v, %v", err, gotErr)
			if err == nil {
				require.True(t, proto.Equal(want, got), "%v, %v", want, got)
			}
		}
	})
}

// echo returns items, and the content type with which it was called.
type echo struct {
	backupitemactionv2.UnimplementedBackupItemActionServer
}

func (echo) Execute(ctx context.Context, req *backupitemactionv2.ExecuteRequest) (*backupitemactionv2.ExecuteResponse, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	return &backupitemactionv2.ExecuteResponse{Item: req.GetItem(), OperationID: fmt.Sprint(incoming["content-type"])}, nil
}

func TestCodecInteroperatesWithGRPCsOwn(t *testing.T) {
	t.Parallel()
	for _, ours := range []struct{ server, client bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", ours), func(t *testing.T) {
			t.Parallel()
			onServer, onClient := []grpc.ServerOption{grpc.MaxRecvMsgSize(math.MaxInt32)}, []grpc.CallOption{grpc.MaxCallRecvMsgSize(math.MaxInt32)}
			if ours.server {
				onServer = append(onServer, grpc.ForceServerCodecV2(New()))
			}
			if ours.client {
				onClient = append(onClient, grpc.ForceCodecV2(New()))
			}
			server, listener := grpc.NewServer(onServer...), bufconn.Listen(1<<20)
			backupitemactionv2.RegisterBackupItemActionServer(server, echo{})
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			conn, err := grpc.NewClient("passthrough:echo", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(onClient...),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, conn.Close())
				server.Stop()
				require.NoError(t, <-served)
			})
			for _, size := range []int{10, 1 << 20} {
				answer, err := backupitemactionv2.NewBackupItemActionClient(conn).Execute(t.Context(), &backupitemactionv2.ExecuteRequest{Item: text(size)})
				require.NoError(t, err)
				require.True(t, bytes.Equal(text(size), answer.GetItem()))
				require.Equal(t, "[application/grpc]", answer.GetOperationID(), "the wire is the same")
			}
		})
	}
}

// BenchmarkItem encodes and decodes a request with an item, with this codec and gRPC's.
func BenchmarkItem(b *testing.B) {
	for name, codec := range map[string]encoding.CodecV2{"ours": New(), "gRPC": encoding.GetCodecV2(protocodec.Name)} {
		for _, size := range []int{1 << 10, 500 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				request := &backupitemactionv2.ExecuteRequest{Plugin: "example.io/a", Item: text(size), Backup: text(800)}
				raw, err := proto.Marshal(request)
				require.NoError(b, err)
				pieces := inPieces(raw, 16<<10)
				b.ReportAllocs()
				for b.Loop() {
					sent, err := codec.Marshal(request)
					if err != nil {
						b.Fatal(err)
					}
					sent.Free()
					if err := codec.Unmarshal(pieces, &backupitemactionv2.ExecuteRequest{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
