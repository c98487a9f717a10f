package conformance

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// veleroKinds returns the kinds that PluginLister may list, in its order.
func veleroKinds() []string {
	return []string{
		"BackupItemAction", "BackupItemActionV2", "VolumeSnapshotter", "ObjectStore",
		"RestoreItemAction", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction",
	}
}

// probe is a method of a kind whose answer shows whether the kind is served.
type probe struct {
	method string
	stream bool
	begin  protowire.Number // field of the first message that holds the message with the plugin's name; 0 if the first message has the name itself
}

func probes() map[string]probe {
	return map[string]probe{
		"BackupItemAction":       {method: "/generated.BackupItemAction/AppliesTo"},
		"BackupItemActionV2":     {method: "/v2.BackupItemAction/AppliesTo"},
		"RestoreItemAction":      {method: "/generated.RestoreItemAction/AppliesTo"},
		"RestoreItemActionV2":    {method: "/v2.RestoreItemAction/AppliesTo"},
		"DeleteItemAction":       {method: "/generated.DeleteItemAction/AppliesTo"},
		"ItemBlockAction":        {method: "/v1.ItemBlockAction/AppliesTo"},
		"ObjectStore":            {method: "/generated.ObjectStore/ObjectExists"},
		"VolumeSnapshotter":      {method: "/generated.VolumeSnapshotter/GetVolumeID"},
		"AsyncBackupItemAction":  {method: "/cleat.asyncbackupitemaction.v1.AsyncBackupItemActionService/AppliesTo"},
		"AsyncRestoreItemAction": {method: "/cleat.asyncrestoreitemaction.v1.AsyncRestoreItemActionService/AppliesTo"},
		"QueueAdmission":         {method: "/cleat.queueadmission.v1.QueueAdmissionService/Decide"},
		"LoadSoothing":           {method: "/cleat.loadsoothing.v1.LoadSoothingService/Admit"},
		"ManifestWriter":         {method: "/cleat.manifestwriter.v1.ManifestWriterService/Write", stream: true, begin: 1},
	}
}

// ownProcess reports whether a kind is configured once per process.
func ownProcess(kind string) bool { return kind == "ObjectStore" || kind == "VolumeSnapshotter" }

// isPolicy reports whether a kind is chosen and configured in the host's configuration.
func isPolicy(kind string) bool {
	return slices.Contains([]string{"QueueAdmission", "LoadSoothing", "ManifestWriter"}, kind)
}

// call sends a request that has nothing but the plugin's name.
func (p probe) call(ctx context.Context, conn *grpc.ClientConn, name string) error {
	request := withBytes(&emptypb.Empty{}, 1, []byte(name))
	if !p.stream {
		return conn.Invoke(ctx, p.method, request, &emptypb.Empty{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, p.method)
	if err != nil {
		return err
	}
	inner, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(withBytes(&emptypb.Empty{}, p.begin, inner)) // RecvMsg returns the error
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

// withUnknown adds a field that the plugin does not know.
func withUnknown[M proto.Message](message M) M {
	return withBytes(message, unknownField, []byte("from a newer host"))
}
