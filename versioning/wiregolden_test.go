package versioning_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/cleat-dev/cleat/framework"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	restoreitemactionv1 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/velerohost"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// TestAcceptBackup_WireGolden compares both sides of our wire with Velero's, written by hand in velerowire_test.go: a
// plugin process called as by Velero's host, and our host as a plugin of Velero's sees it. All messages of the peer are
// bytes; none of our generated code makes or reads them. TestAcceptPlugins_WireGolden compares the descriptors.
func TestAcceptBackup_WireGolden(t *testing.T) {
	t.Parallel()
	v := newVelero(t, veleroMessages, veleroMethods)
	t.Run("literal bytes", func(t *testing.T) { t.Parallel(); requireLiteralBytes(t) })
	t.Run("our plugin under Velero's host", func(t *testing.T) { t.Parallel(); requirePluginSpeaksVelero(t, v) })
	t.Run("Velero's plugin under our host", func(t *testing.T) { t.Parallel(); requireHostSpeaksVelero(t, v) })
}

func requireSameDescriptors(t *testing.T, v velero) {
	t.Helper()
	for _, want := range v.messages {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(want.FullName())
		require.NoError(t, err)
		got, ok := found.(protoreflect.MessageDescriptor)
		require.True(t, ok)
		require.Equal(t, want.Fields().Len(), got.Fields().Len(), want.FullName())
		for j := range want.Fields().Len() {
			w, g := want.Fields().Get(j), got.Fields().ByNumber(want.Fields().Get(j).Number())
			require.NotNil(t, g, w.FullName())
			require.Equal(t, w.Name(), g.Name())
			require.Equal(t, w.Kind(), g.Kind(), w.FullName())
			require.Equal(t, w.Cardinality(), g.Cardinality(), w.FullName())
			require.Equal(t, w.IsMap(), g.IsMap(), w.FullName())
			require.False(t, g.HasOptionalKeyword(), w.FullName())
			if w.Message() != nil {
				require.Equal(t, w.Message().FullName(), g.Message().FullName())
			}
		}
	}
	calls := map[protoreflect.FullName]int{}
	for _, words := range rows(v.methods) {
		service, name, _ := strings.Cut(strings.TrimPrefix(words[0], "/"), "/")
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
		require.NoError(t, err)
		method, ok := found.(protoreflect.MethodDescriptor)
		require.True(t, ok)
		sent, clientStreams := strings.CutPrefix(words[1], "stream:")
		answered, serverStreams := strings.CutPrefix(words[2], "stream:")
		require.Equal(t, full(sent), string(method.Input().FullName()))
		require.Equal(t, full(answered), string(method.Output().FullName()))
		require.Equal(t, clientStreams, method.IsStreamingClient(), words[0])
		require.Equal(t, serverStreams, method.IsStreamingServer(), words[0])
		calls[method.Parent().FullName()]++
	}
	for service, count := range calls {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
		require.NoError(t, err)
		descriptor, ok := found.(protoreflect.ServiceDescriptor)
		require.True(t, ok)
		require.Equal(t, count, descriptor.Methods().Len(), "%s has a call that Velero's has not", service)
	}
}

// requireLiteralBytes anchors the other checks: these bytes were written by hand, by the rules of the protobuf
// encoding.
func requireLiteralBytes(t *testing.T) {
	t.Helper()
	for want, message := range map[string]proto.Message{
		"0a 03 612f62 12 02 7b7d 1a 02 5b5d": &backupitemactionv1.ExecuteRequest{Plugin: "a/b", Item: []byte("{}"),
			Backup: []byte("[]")},
		"0a 02 7b7d 12 07 12 01 72 22 02 6e31": &backupitemactionv1.ExecuteResponse{Item: []byte("{}"),
			AdditionalItems: []*shared.ResourceIdentifier{{Resource: "r", Name: "n1"}}},
		"0a 01 61 12 01 62 1a 01 63 22 01 64": &restoreitemactionv1.RestoreItemActionExecuteRequest{Plugin: "a",
			Item: []byte("b"), Restore: []byte("c"), ItemFromBackup: []byte("d")},
		"0a 02 7b7d 18 01": &restoreitemactionv1.RestoreItemActionExecuteResponse{
			Item: []byte("{}"), SkipRestore: true,
		},
		"0a 09 0a 01 6e 1a 01 70 2a 01 6c": &backupitemactionv1.BackupItemActionAppliesToResponse{
			ResourceSelector: &shared.ResourceSelector{IncludedNamespaces: []string{"n"}, IncludedResources: []string{"p"},
				Selector: "l"},
		},
		"0a 01 70 12 06 0a 01 6b 12 01 76": &objectstorev1.ObjectStoreInitRequest{Plugin: "p",
			Config: map[string]string{"k": "v"}},
		"0a 01 70 12 01 62 1a 01 6b 22 02 00ff": &objectstorev1.PutObjectRequest{Plugin: "p", Bucket: "b", Key: "k",
			Body: []byte{0, 255}},
		"0a 01 70 12 01 62 1a 01 6b 20 80 94 eb dc 03": &objectstorev1.CreateSignedURLRequest{Plugin: "p", Bucket: "b",
			Key: "k", Ttl: int64(time.Second)},
		"0a 09 0a 01 63 12 01 6b 1a 01 6e": &pluginlisterv1.ListPluginsResponse{
			Plugins: []*pluginlisterv1.PluginIdentifier{{Command: "c", Kind: "k", Name: "n"}},
		},
		"0a 08 0a 01 66 10 07 1a 01 67": &shared.Stack{
			Frames: []*shared.StackFrame{{File: "f", Line: 7, Function: "g"}},
		},
	} {
		encoded, err := proto.Marshal(message)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(want, " ", ""), hex.EncodeToString(encoded), "%T", message)
	}
}

func requireUnknownFieldsSurvive(t *testing.T, v velero) {
	t.Helper()
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "from the future")
	for _, written := range v.messages {
		name := written.FullName()
		kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
		require.NoError(t, err)
		message := kind.New().Interface()
		require.NoError(t, proto.Unmarshal(unknown, message))
		encoded, err := proto.Marshal(message)
		require.NoError(t, err)
		require.Equal(t, unknown, encoded, name)
	}
}

// bytesCodec sends and receives messages as raw bytes.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(message any) ([]byte, error) {
	if raw, ok := message.(*[]byte); ok {
		return *raw, nil
	}
	return nil, errors.New("only bytes are sent")
}

func (bytesCodec) Unmarshal(data []byte, message any) error {
	raw, ok := message.(*[]byte)
	if !ok {
		return errors.New("only bytes are received")
	}
	*raw = bytes.Clone(data)
	return nil
}

// encode returns the encoding of a message given in protobuf's text format, as Velero's side would send it.
func (v velero) encode(t *testing.T, name, text string) []byte {
	t.Helper()
	message := v.message(t, name)
	require.NoError(t, prototext.Unmarshal([]byte(text), message))
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	require.NoError(t, err)
	return encoded
}

// requireBytes requires raw to be the encoding of a message given in protobuf's text format, byte for byte.
func (v velero) requireBytes(t *testing.T, name, text string, raw []byte) {
	t.Helper()
	want := v.encode(t, name, text)
	if !bytes.Equal(want, raw) {
		got := v.message(t, name)
		require.NoError(t, proto.Unmarshal(raw, got), "%x", raw)
		require.Equal(t, text, prototext.Format(got))
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(raw))
	}
}

// types returns the message types of the call with this path.
func (v velero) types(t *testing.T, path string) (sent, answered string) {
	t.Helper()
	for _, words := range rows(v.methods) {
		if words[0] == path {
			return strings.TrimPrefix(words[1], "stream:"), strings.TrimPrefix(words[2], "stream:")
		}
	}
	require.Fail(t, "no such call", path)
	return "", ""
}

// exchange is one call: its requests and replies in protobuf's text format.
type exchange struct {
	path     string
	sent     []string
	answered []string
}

const (
	pod     = `{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"in-1\"}}`
	stamped = `{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"annotations\":{\"example.io/stamp\":\"nightly\"},\"name\":\"a\",\"namespace\":\"in-1\"}}`
	was     = `{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"annotations\":{\"restore\":\"monday\",\"was\":\"old/b\"},\"name\":\"a\",\"namespace\":\"in-1\"}}`
	old     = `{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\",\"namespace\":\"old\"}}`
	at      = `plugin:"example.io/memory" bucket:"bucket"`
)

// conversation returns the calls of Velero's host to the plugin below framework/testdata/plugin, and the replies. The
// first four calls of an object's life build on each other, so the order counts.
func conversation(command string) []exchange {
	listed := ""
	for _, line := range []string{
		"BackupItemAction example.io/fail", "BackupItemAction example.io/keep", "BackupItemAction example.io/log",
		"BackupItemAction example.io/panic", "BackupItemAction example.io/print", "BackupItemAction example.io/stamp",
		"ObjectStore example.io/memory", "RestoreItemAction example.io/compare", "RestoreItemAction example.io/skip",
	} {
		kind, name, _ := strings.Cut(line, " ")
		listed += `plugins:{command:"` + command + `" kind:"` + kind + `" name:"` + name + `"} `
	}
	piece := strings.Repeat("x", 16384)
	return []exchange{
		{"/generated.PluginLister/ListPlugins", []string{""}, []string{listed}},
		{"/generated.BackupItemAction/AppliesTo", []string{`plugin:"example.io/stamp"`}, []string{`ResourceSelector:{
			includedNamespaces:"in-*" excludedNamespaces:"in-2" includedResources:["pods","deployments.apps"]
			excludedResources:"secrets" selector:"app=db"}`}},
		{"/generated.BackupItemAction/Execute",
			[]string{`plugin:"example.io/stamp" item:"` + pod + `" backup:"{\"metadata\":{\"name\":\"nightly\"}}"`},
			[]string{`item:"` + stamped +
				`" additionalItems:{group:"apps" resource:"deployments" namespace:"in-1" name:"web"}`}},
		{"/generated.BackupItemAction/Execute", []string{`plugin:"example.io/keep" item:" ` + pod + ` " backup:"{}"`},
			[]string{`item:" ` + pod + ` "`}},
		{"/generated.RestoreItemAction/AppliesTo", []string{`plugin:"example.io/skip"`}, []string{`ResourceSelector:{}`}},
		{"/generated.RestoreItemAction/Execute",
			[]string{`plugin:"example.io/skip" item:"` + pod + `" restore:"{}" itemFromBackup:"` + old + `"`},
			[]string{`item:"` + pod + `" skipRestore:true`}},
		{"/generated.RestoreItemAction/Execute",
			[]string{`plugin:"example.io/compare" item:"` + pod +
				`" restore:"{\"metadata\":{\"name\":\"monday\"}}" itemFromBackup:"` + old + `"`},
			[]string{`item:"` + was + `" additionalItems:{resource:"configmaps" namespace:"in-1" name:"settings"}`}},
		{"/generated.ObjectStore/Init", []string{`plugin:"example.io/memory" config:{key:"scheme" value:"https"}`},
			[]string{""}},
		{"/generated.ObjectStore/ObjectExists", []string{at + ` key:"a/b"`}, []string{""}},
		{"/generated.ObjectStore/PutObject", []string{at + ` key:"a/b" body:"` + piece + `"`, at + ` key:"a/b" body:"` +
			piece + `"`, at + ` key:"a/b" body:"end"`}, []string{""}},
		{"/generated.ObjectStore/PutObject", []string{at + ` key:"a/empty"`}, []string{""}},
		{"/generated.ObjectStore/ObjectExists", []string{at + ` key:"a/b"`}, []string{"exists:true"}},
		{"/generated.ObjectStore/GetObject", []string{at + ` key:"a/b"`},
			[]string{`data:"` + piece + `"`, `data:"` + piece + `"`, `data:"end"`}},
		{"/generated.ObjectStore/GetObject", []string{at + ` key:"a/empty"`}, nil},
		{"/generated.ObjectStore/ListCommonPrefixes", []string{at + ` delimiter:"/" prefix:""`}, []string{`prefixes:"a/"`}},
		{"/generated.ObjectStore/ListObjects", []string{at + ` prefix:"a/"`}, []string{`keys:["a/b","a/empty"]`}},
		{"/generated.ObjectStore/CreateSignedURL", []string{at + ` key:"a/b" ttl:60000000000`},
			[]string{`url:"https://bucket/a/b?ttl=60000000000"`}},
		{"/generated.ObjectStore/DeleteObject", []string{at + ` key:"a/b"`}, []string{""}},
	}
}

// converse calls the plugin that conn reaches as Velero's host does, and requires the replies of Velero's plugin.
func converse(t *testing.T, v velero, conn *grpc.ClientConn, conversation []exchange) {
	t.Helper()
	// Messages of Velero's next version may have a field that is not known yet.
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	for _, said := range conversation {
		sent, answered := v.types(t, said.path)
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, said.path,
			grpc.ForceCodec(bytesCodec{}))
		require.NoError(t, err)
		for _, text := range said.sent {
			raw := append(v.encode(t, sent, text), unknown...)
			require.NoError(t, stream.SendMsg(&raw))
		}
		require.NoError(t, stream.CloseSend())
		for _, text := range said.answered {
			var raw []byte
			require.NoError(t, stream.RecvMsg(&raw), said.path)
			v.requireBytes(t, answered, text, raw)
		}
		require.Equal(t, io.EOF, stream.RecvMsg(new([]byte)), said.path)
	}
}

func requirePluginSpeaksVelero(t *testing.T, v velero) {
	t.Helper()
	command, conn := startPlugin(t, "plugin")
	converse(t, v, conn, conversation(command))

	for name, want := range map[string]struct {
		code           codes.Code
		message, frame string
	}{
		"example.io/fail": {codes.Unknown, "stamp: no room for a", "main.fail"},
		"example.io/panic": {codes.Aborted, "plugin panicked: runtime error: invalid memory address or nil pointer " +
			"dereference", "main.nilDereference"},
	} {
		raw := v.encode(t, "ExecuteRequest", `plugin:"`+name+`" item:"`+pod+`" backup:"{}"`)
		failed := status.Convert(conn.Invoke(t.Context(), "/generated.BackupItemAction/Execute", &raw, new([]byte),
			grpc.ForceCodec(bytesCodec{})))
		require.Equal(t, want.code, failed.Code())
		require.Equal(t, want.message, failed.Message())
		require.Len(t, failed.Proto().GetDetails(), 1)
		detail := failed.Proto().GetDetails()[0]
		require.Equal(t, "type.googleapis.com/generated.Stack", detail.GetTypeUrl())
		stack := v.message(t, "Stack")
		require.NoError(t, proto.Unmarshal(detail.GetValue(), stack))
		require.Regexp(t, `^frames:\s*\{\s*file:\s*"[^"]+/actions\.go"\s+line:\s*\d+\s+function:\s*"`+want.frame+`"`,
			prototext.Format(stack))
	}
}

// startPlugin starts a plugin process as Velero's host does. The program is one below framework/testdata.
func startPlugin(t *testing.T, program string) (command string, conn *grpc.ClientConn) {
	t.Helper()
	command = programs.Build(t, "framework/testdata/"+program)
	started := exec.Command(command, "--log-level=error", "--uploader-type=kopia")
	conn, err := velerohost.Start(t, velerohost.Config(started))
	require.NoError(t, err)
	return command, conn
}

// scripted returns a connection to a Velero plugin that expects one conversation and exchanges raw bytes.
func scripted(t *testing.T, v velero, script []exchange) grpc.ClientConnInterface {
	t.Helper()
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	handle := func(_ any, stream grpc.ServerStream) error {
		path, _ := grpc.MethodFromServerStream(stream)
		var received [][]byte
		for {
			var raw []byte
			err := stream.RecvMsg(&raw)
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			received = append(received, raw)
		}
		at := slices.IndexFunc(script, func(e exchange) bool {
			if e.path != path || len(e.sent) != len(received) {
				return false
			}
			sent, _ := v.types(t, path)
			for i, text := range e.sent {
				if !bytes.Equal(v.encode(t, sent, text), received[i]) {
					return false
				}
			}
			return true
		})
		if at < 0 {
			return status.Errorf(codes.InvalidArgument, "no such call in the script: %s %x", path, received)
		}
		_, answered := v.types(t, path)
		for _, text := range script[at].answered {
			raw := append(v.encode(t, answered, text), unknown...)
			if err := stream.SendMsg(&raw); err != nil {
				return err
			}
		}
		return nil
	}
	return plugintest.ServeRaw(t, []grpc.ServerOption{
		grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(handle), //nolint:staticcheck // the one way to serve bytes
	}, func(*grpc.Server) {})
}

// unquoted returns JSON from protobuf's text format, without that format's quoting.
func unquoted(text string) []byte { return []byte(strings.ReplaceAll(text, `\"`, `"`)) }

func requireHostSpeaksVelero(t *testing.T, v velero) {
	t.Helper()
	piece := strings.Repeat("x", 16384)
	script := conversation("/plugins/any")
	script = slices.DeleteFunc(script, func(e exchange) bool { // before the upload, the object was not there
		return strings.HasSuffix(e.path, "/ObjectExists") && e.answered[0] == ""
	})
	conn := scripted(t, v, script)

	backup := backupitemaction.V1().Bind(conn, "example.io/stamp")
	selector, err := backup.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{
		IncludedNamespaces: []string{"in-*"}, ExcludedNamespaces: []string{"in-2"},
		IncludedResources: []string{"pods", "deployments.apps"}, ExcludedResources: []string{"secrets"},
		LabelSelector: "app=db",
	}, selector)
	result, err := backup.Execute(t.Context(), unquoted(pod), []byte(`{"metadata":{"name":"nightly"}}`))
	require.NoError(t, err)
	require.Equal(t, &backupitemaction.Result{
		Item: unquoted(stamped),
		AdditionalItems: []framework.ResourceIdentifier{{Group: "apps", Resource: "deployments", Namespace: "in-1",
			Name: "web"}},
	}, result)

	skipped, err := restoreitemaction.V1().Bind(conn, "example.io/skip").Execute(t.Context(), restoreitemaction.Input{
		Item: unquoted(pod), Restore: []byte("{}"), ItemFromBackup: unquoted(old),
	})
	require.NoError(t, err)
	require.True(t, skipped.SkipRestore)
	all, err := restoreitemaction.V1().Bind(conn, "example.io/skip").AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{}, all)
	restored, err := restoreitemaction.V1().Bind(conn, "example.io/compare").Execute(t.Context(), restoreitemaction.Input{
		Item: unquoted(pod), Restore: []byte(`{"metadata":{"name":"monday"}}`), ItemFromBackup: unquoted(old),
	})
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{
		Item:            unquoted(was),
		AdditionalItems: []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: "in-1", Name: "settings"}},
	}, restored)

	store := objectstore.V1().Bind(conn, "example.io/memory")
	require.NoError(t, store.Init(t.Context(), map[string]string{"scheme": "https"}))
	require.NoError(t, store.PutObject(t.Context(), "bucket", "a/b", strings.NewReader(piece+piece+"end")))
	require.NoError(t, store.PutObject(t.Context(), "bucket", "a/empty", strings.NewReader("")))
	exists, err := store.ObjectExists(t.Context(), "bucket", "a/b")
	require.NoError(t, err)
	require.True(t, exists)
	for key, want := range map[string]string{"a/b": piece + piece + "end", "a/empty": ""} {
		reader, err := store.GetObject(t.Context(), "bucket", key)
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, want, string(content))
		require.NoError(t, reader.Close())
	}
	prefixes, err := store.ListCommonPrefixes(t.Context(), "bucket", "", "/")
	require.NoError(t, err)
	require.Equal(t, []string{"a/"}, prefixes)
	keys, err := store.ListObjects(t.Context(), "bucket", "a/")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b", "a/empty"}, keys)
	signed, err := store.CreateSignedURL(t.Context(), "bucket", "a/b", time.Minute)
	require.NoError(t, err)
	require.Equal(t, "https://bucket/a/b?ttl=60000000000", signed)
	require.NoError(t, store.DeleteObject(t.Context(), "bucket", "a/b"))

	listed, err := versioning.List(t.Context(), conn)
	require.NoError(t, err)
	require.Len(t, listed, 9)
	require.Equal(t, versioning.Listed{Kind: "BackupItemAction", Name: "example.io/fail"}, listed[0])
}
