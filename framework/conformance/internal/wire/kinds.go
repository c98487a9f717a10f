package wire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"

	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

// kinds returns the description of each version of each kind.
func kinds() []hostapi.KindVersion {
	return []hostapi.KindVersion{
		biav1.Kind().KindVersion, biav2.Kind().KindVersion, abiav1.Kind().KindVersion,
		riav1.Kind().KindVersion, riav2.Kind().KindVersion, ariav1.Kind().KindVersion,
		diav1.Kind().KindVersion, ibav1.Kind().KindVersion, osv1.Kind().KindVersion, vsv1.Kind().KindVersion,
		qav1.Kind().KindVersion, lsv1.Kind().KindVersion, mwv1.Kind().KindVersion, dmv1.Kind().KindVersion,
	}
}

// Kind returns the description of the kind with the name wire in a plugin's list, or false if it is not known.
func Kind(wire string) (hostapi.KindVersion, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k hostapi.KindVersion) bool { return k.Wire == wire })
	if i < 0 {
		return hostapi.KindVersion{}, false
	}
	return all[i], true
}

// VeleroKinds returns the kinds that PluginLister may list, in its order.
func VeleroKinds() []string {
	listed := slices.DeleteFunc(kinds(), func(k hostapi.KindVersion) bool { return k.Listed == 0 })
	slices.SortFunc(listed, func(a, b hostapi.KindVersion) int { return cmp.Compare(a.Listed, b.Listed) })
	var names []string
	for _, kind := range listed {
		names = append(names, kind.Wire)
	}
	return names
}

// OwnProcess reports whether a kind is configured once per process.
func OwnProcess(kind string) bool {
	known, _ := Kind(kind)
	return known.HasInit
}

// IsAction reports whether a kind is one of ActionKinds.
func IsAction(kind string) bool {
	_, ok := ActionKinds()[kind]
	return ok
}

// IsPolicy reports whether a kind is chosen and configured in the host's configuration.
func IsPolicy(kind string) bool {
	known, _ := Kind(kind)
	return known.Policy
}

// Probe calls the probe of a kind with a request that has nothing but the plugin's name.
func Probe(ctx context.Context, conn *grpc.ClientConn, kind hostapi.KindVersion, name string) error {
	method, err := methodOf(kind)
	if err != nil {
		return err
	}
	request := dynamicpb.NewMessage(method.Input())
	setName(request, name)
	if !method.IsStreamingClient() && !method.IsStreamingServer() {
		return conn.Invoke(ctx, kind.Probe, request, &emptypb.Empty{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, kind.Probe)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(request) // RecvMsg returns the error
	_ = stream.CloseSend()
	return stream.RecvMsg(&emptypb.Empty{})
}

// methodOf returns the descriptor of the probe of a kind.
func methodOf(kind hostapi.KindVersion) (protoreflect.MethodDescriptor, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(kind.Probe, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("probe %s of %s: %w", kind.Probe, kind.Wire, err)
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("probe %s of %s is not a method", kind.Probe, kind.Wire)
	}
	return method, nil
}

// setName sets the name of the plugin in a request, or in the message with which a stream begins.
func setName(request protoreflect.Message, name string) {
	fields := request.Descriptor().Fields()
	if plugin := fields.ByName("plugin"); plugin != nil {
		request.Set(plugin, protoreflect.ValueOfString(name))
		return
	}
	if begin := fields.ByName("begin"); begin != nil {
		setName(request.Mutable(begin).Message(), name)
	}
}

// withBytes adds a field to message, known or unknown.
func withBytes[M proto.Message](message M, number protowire.Number, data []byte) M {
	unknown := message.ProtoReflect().GetUnknown()
	unknown = protowire.AppendTag(unknown, number, protowire.BytesType)
	message.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, data))
	return message
}

// unknownField is a field number that no version of any message has.
const unknownField = 12345

// WithUnknown adds a field that the plugin does not know.
func WithUnknown[M proto.Message](message M) M {
	return withBytes(message, unknownField, []byte("from a newer host"))
}
