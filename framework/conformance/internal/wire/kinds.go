package wire

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// VeleroKinds returns the kinds that PluginLister may list, in its order.
func VeleroKinds() []string {
	return []string{
		"BackupItemAction", "BackupItemActionV2", "VolumeSnapshotter", "ObjectStore",
		"RestoreItemAction", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction",
	}
}

// Probe is a method of a kind whose answer shows whether the kind is served.
type Probe struct {
	Method string
	stream bool
	// field of the first message that holds the message with the plugin's name; 0 if the first message has the name itself
	begin protowire.Number
}

// Probes returns a probe for each kind.
func Probes() map[string]Probe {
	return map[string]Probe{
		"BackupItemAction":       {Method: "/generated.BackupItemAction/AppliesTo"},
		"BackupItemActionV2":     {Method: "/v2.BackupItemAction/AppliesTo"},
		"RestoreItemAction":      {Method: "/generated.RestoreItemAction/AppliesTo"},
		"RestoreItemActionV2":    {Method: "/v2.RestoreItemAction/AppliesTo"},
		"DeleteItemAction":       {Method: "/generated.DeleteItemAction/AppliesTo"},
		"ItemBlockAction":        {Method: "/v1.ItemBlockAction/AppliesTo"},
		"ObjectStore":            {Method: "/generated.ObjectStore/ObjectExists"},
		"VolumeSnapshotter":      {Method: "/generated.VolumeSnapshotter/GetVolumeID"},
		"AsyncBackupItemAction":  {Method: "/cleat.asyncbackupitemaction.v1.AsyncBackupItemActionService/AppliesTo"},
		"AsyncRestoreItemAction": {Method: "/cleat.asyncrestoreitemaction.v1.AsyncRestoreItemActionService/AppliesTo"},
		"QueueAdmission":         {Method: "/cleat.queueadmission.v1.QueueAdmissionService/Decide"},
		"LoadSoothing":           {Method: "/cleat.loadsoothing.v1.LoadSoothingService/Admit"},
		"ManifestWriter":         {Method: "/cleat.manifestwriter.v1.ManifestWriterService/Write", stream: true, begin: 1},
		"DataMover":              {Method: "/cleat.datamover.v1.DataMoverService/Check", stream: true},
	}
}

// OwnProcess reports whether a kind is configured once per process.
func OwnProcess(kind string) bool { return kind == "ObjectStore" || kind == "VolumeSnapshotter" }

// IsAction reports whether a kind is one of ActionKinds.
func IsAction(kind string) bool {
	_, ok := ActionKinds()[kind]
	return ok
}

// IsPolicy reports whether a kind is chosen and configured in the host's configuration.
func IsPolicy(kind string) bool {
	return slices.Contains([]string{"QueueAdmission", "LoadSoothing", "ManifestWriter"}, kind)
}

// Call sends a request that has nothing but the plugin's name.
func (p Probe) Call(ctx context.Context, conn *grpc.ClientConn, name string) error {
	request := withBytes(&emptypb.Empty{}, 1, []byte(name))
	if !p.stream {
		return conn.Invoke(ctx, p.Method, request, &emptypb.Empty{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, p.Method)
	if err != nil {
		return err
	}
	if p.begin > 0 {
		inner, err := proto.Marshal(request)
		if err != nil {
			return err
		}
		request = withBytes(&emptypb.Empty{}, p.begin, inner)
	}
	_ = stream.SendMsg(request) // RecvMsg returns the error
	_ = stream.CloseSend()
	return stream.RecvMsg(&emptypb.Empty{})
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
