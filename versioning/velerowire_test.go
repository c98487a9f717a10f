package versioning_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// veleroMessages is Velero's wire, written down by hand and not taken from our .proto files: per message its
// fields in the order of their numbers, which have no gaps. "[]" is repeated, "map" is map<string, string>, a
// type in capitals is a message. A message that is not of the package "generated" has its package before its name.
const veleroMessages = `
Empty
Stack                               frames:[]StackFrame
StackFrame                          file:string line:int32 function:string
ResourceIdentifier                  group:string resource:string namespace:string name:string
ResourceSelector                    includedNamespaces:[]string excludedNamespaces:[]string includedResources:[]string excludedResources:[]string selector:string
PluginIdentifier                    command:string kind:string name:string
ListPluginsResponse                 plugins:[]PluginIdentifier
BackupItemActionAppliesToRequest    plugin:string
BackupItemActionAppliesToResponse   ResourceSelector:ResourceSelector
ExecuteRequest                      plugin:string item:bytes backup:bytes
ExecuteResponse                     item:bytes additionalItems:[]ResourceIdentifier
RestoreItemActionAppliesToRequest   plugin:string
RestoreItemActionAppliesToResponse  ResourceSelector:ResourceSelector
RestoreItemActionExecuteRequest     plugin:string item:bytes restore:bytes itemFromBackup:bytes
RestoreItemActionExecuteResponse    item:bytes additionalItems:[]ResourceIdentifier skipRestore:bool
ObjectStoreInitRequest              plugin:string config:map
PutObjectRequest                    plugin:string bucket:string key:string body:bytes
ObjectExistsRequest                 plugin:string bucket:string key:string
ObjectExistsResponse                exists:bool
GetObjectRequest                    plugin:string bucket:string key:string
Bytes                               data:bytes
ListCommonPrefixesRequest           plugin:string bucket:string delimiter:string prefix:string
ListCommonPrefixesResponse          prefixes:[]string
ListObjectsRequest                  plugin:string bucket:string prefix:string
ListObjectsResponse                 keys:[]string
DeleteObjectRequest                 plugin:string bucket:string key:string
CreateSignedURLRequest              plugin:string bucket:string key:string ttl:int64
CreateSignedURLResponse             url:string
`

// veleroMethods is every call of Velero's wire that is served: its path, what is sent and what is answered.
const veleroMethods = `
/generated.PluginLister/ListPlugins        Empty                              ListPluginsResponse
/generated.BackupItemAction/AppliesTo      BackupItemActionAppliesToRequest   BackupItemActionAppliesToResponse
/generated.BackupItemAction/Execute        ExecuteRequest                     ExecuteResponse
/generated.RestoreItemAction/AppliesTo     RestoreItemActionAppliesToRequest  RestoreItemActionAppliesToResponse
/generated.RestoreItemAction/Execute       RestoreItemActionExecuteRequest    RestoreItemActionExecuteResponse
/generated.ObjectStore/Init                ObjectStoreInitRequest             Empty
/generated.ObjectStore/PutObject           stream:PutObjectRequest            Empty
/generated.ObjectStore/ObjectExists        ObjectExistsRequest                ObjectExistsResponse
/generated.ObjectStore/GetObject           GetObjectRequest                   stream:Bytes
/generated.ObjectStore/ListCommonPrefixes  ListCommonPrefixesRequest          ListCommonPrefixesResponse
/generated.ObjectStore/ListObjects         ListObjectsRequest                 ListObjectsResponse
/generated.ObjectStore/DeleteObject        DeleteObjectRequest                Empty
/generated.ObjectStore/CreateSignedURL     CreateSignedURLRequest             CreateSignedURLResponse
`

// veleroKindMessages goes on with the kinds and versions that are not of the spine.
const veleroKindMessages = `
OperationProgress                        completed:bool err:string nCompleted:int64 nTotal:int64 operationUnits:string description:string started:Timestamp updated:Timestamp
DeleteItemActionAppliesToRequest         plugin:string
DeleteItemActionAppliesToResponse        ResourceSelector:ResourceSelector
DeleteItemActionExecuteRequest           plugin:string item:bytes backup:bytes
VolumeSnapshotterInitRequest             plugin:string config:map
CreateVolumeRequest                      plugin:string snapshotID:string volumeType:string volumeAZ:string iops:int64
CreateVolumeResponse                     volumeID:string
GetVolumeInfoRequest                     plugin:string volumeID:string volumeAZ:string
GetVolumeInfoResponse                    volumeType:string iops:int64
CreateSnapshotRequest                    plugin:string volumeID:string volumeAZ:string tags:map
CreateSnapshotResponse                   snapshotID:string
DeleteSnapshotRequest                    plugin:string snapshotID:string
GetVolumeIDRequest                       plugin:string persistentVolume:bytes
GetVolumeIDResponse                      volumeID:string
SetVolumeIDRequest                       plugin:string persistentVolume:bytes volumeID:string
SetVolumeIDResponse                      persistentVolume:bytes
v1.ItemBlockActionAppliesToRequest           plugin:string
v1.ItemBlockActionAppliesToResponse          ResourceSelector:ResourceSelector
v1.ItemBlockActionGetRelatedItemsRequest     plugin:string item:bytes backup:bytes
v1.ItemBlockActionGetRelatedItemsResponse    relatedItems:[]ResourceIdentifier
v2.BackupItemActionAppliesToRequest      plugin:string
v2.BackupItemActionAppliesToResponse     ResourceSelector:ResourceSelector
v2.ExecuteRequest                        plugin:string item:bytes backup:bytes
v2.ExecuteResponse                       item:bytes additionalItems:[]ResourceIdentifier operationID:string postOperationItems:[]ResourceIdentifier
v2.BackupItemActionProgressRequest       plugin:string operationID:string backup:bytes
v2.BackupItemActionProgressResponse      progress:OperationProgress
v2.BackupItemActionCancelRequest         plugin:string operationID:string backup:bytes
v2.RestoreItemActionAppliesToRequest     plugin:string
v2.RestoreItemActionAppliesToResponse    ResourceSelector:ResourceSelector
v2.RestoreItemActionExecuteRequest       plugin:string item:bytes restore:bytes itemFromBackup:bytes
v2.RestoreItemActionExecuteResponse      item:bytes additionalItems:[]ResourceIdentifier skipRestore:bool operationID:string waitForAdditionalItems:bool additionalItemsReadyTimeout:Duration
v2.RestoreItemActionProgressRequest      plugin:string operationID:string restore:bytes
v2.RestoreItemActionProgressResponse     progress:OperationProgress
v2.RestoreItemActionCancelRequest        plugin:string operationID:string restore:bytes
v2.RestoreItemActionItemsReadyRequest    plugin:string restore:bytes additionalItems:[]ResourceIdentifier
v2.RestoreItemActionItemsReadyResponse   ready:bool
`

// veleroKindMethods goes on likewise.
const veleroKindMethods = `
/generated.DeleteItemAction/AppliesTo                  DeleteItemActionAppliesToRequest          DeleteItemActionAppliesToResponse
/generated.DeleteItemAction/Execute                    DeleteItemActionExecuteRequest            Empty
/generated.VolumeSnapshotter/Init                      VolumeSnapshotterInitRequest              Empty
/generated.VolumeSnapshotter/CreateVolumeFromSnapshot  CreateVolumeRequest                       CreateVolumeResponse
/generated.VolumeSnapshotter/GetVolumeInfo             GetVolumeInfoRequest                      GetVolumeInfoResponse
/generated.VolumeSnapshotter/CreateSnapshot            CreateSnapshotRequest                     CreateSnapshotResponse
/generated.VolumeSnapshotter/DeleteSnapshot            DeleteSnapshotRequest                     Empty
/generated.VolumeSnapshotter/GetVolumeID               GetVolumeIDRequest                        GetVolumeIDResponse
/generated.VolumeSnapshotter/SetVolumeID               SetVolumeIDRequest                        SetVolumeIDResponse
/v1.ItemBlockAction/AppliesTo                          v1.ItemBlockActionAppliesToRequest        v1.ItemBlockActionAppliesToResponse
/v1.ItemBlockAction/GetRelatedItems                    v1.ItemBlockActionGetRelatedItemsRequest  v1.ItemBlockActionGetRelatedItemsResponse
/v2.BackupItemAction/AppliesTo                         v2.BackupItemActionAppliesToRequest       v2.BackupItemActionAppliesToResponse
/v2.BackupItemAction/Execute                           v2.ExecuteRequest                         v2.ExecuteResponse
/v2.BackupItemAction/Progress                          v2.BackupItemActionProgressRequest        v2.BackupItemActionProgressResponse
/v2.BackupItemAction/Cancel                            v2.BackupItemActionCancelRequest          google.protobuf.Empty
/v2.RestoreItemAction/AppliesTo                        v2.RestoreItemActionAppliesToRequest      v2.RestoreItemActionAppliesToResponse
/v2.RestoreItemAction/Execute                          v2.RestoreItemActionExecuteRequest        v2.RestoreItemActionExecuteResponse
/v2.RestoreItemAction/Progress                         v2.RestoreItemActionProgressRequest       v2.RestoreItemActionProgressResponse
/v2.RestoreItemAction/Cancel                           v2.RestoreItemActionCancelRequest         google.protobuf.Empty
/v2.RestoreItemAction/AreAdditionalItemsReady          v2.RestoreItemActionItemsReadyRequest     v2.RestoreItemActionItemsReadyResponse
`

// velero encodes and decodes messages that are written down by hand, and knows the calls that they belong to.
type velero struct {
	files    *protoregistry.Files
	messages []protoreflect.MessageDescriptor // those written down, without the ones that only belong to a map
	methods  string
}

func newVelero(t *testing.T, messages, methods string) velero {
	t.Helper()
	// A registry of its own: the names are those of our generated messages.
	v := velero{files: new(protoregistry.Files), methods: methods}
	dependencies := []string{}
	for _, known := range []protoreflect.FileDescriptor{
		emptypb.File_google_protobuf_empty_proto, durationpb.File_google_protobuf_duration_proto,
		timestamppb.File_google_protobuf_timestamp_proto,
	} {
		require.NoError(t, v.files.RegisterFile(known))
		dependencies = append(dependencies, known.Path())
	}
	for _, pkg := range []string{"generated", "v1", "v2"} {
		file := &descriptorpb.FileDescriptorProto{
			Name: proto.String("velero-by-hand-" + pkg + ".proto"), Package: proto.String(pkg), Syntax: proto.String("proto3"),
			Dependency: slices.Clone(dependencies),
		}
		for _, written := range rows(messages) {
			if strings.HasPrefix(full(written[0]), pkg+".") {
				file.MessageType = append(file.MessageType, messageByHand(t, written))
			}
		}
		descriptor, err := protodesc.NewFile(file, v.files)
		require.NoError(t, err)
		require.NoError(t, v.files.RegisterFile(descriptor))
		dependencies = append(dependencies, descriptor.Path())
		for i := range descriptor.Messages().Len() {
			v.messages = append(v.messages, descriptor.Messages().Get(i))
		}
	}
	return v
}

// rows are the words of each line that has any.
func rows(text string) [][]string {
	var found [][]string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			found = append(found, words)
		}
	}
	return found
}

// full is the full name of a message: one that is written without a package is of Velero's first.
func full(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return "generated." + name
}

func messageByHand(t *testing.T, line []string) *descriptorpb.DescriptorProto {
	t.Helper()
	name := full(line[0])
	message := &descriptorpb.DescriptorProto{Name: proto.String(name[strings.LastIndex(name, ".")+1:])}
	for i, written := range line[1:] {
		name, kind, found := strings.Cut(written, ":")
		require.True(t, found, written)
		field := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), JsonName: proto.String(name), Number: proto.Int32(int32(i + 1)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		kind, repeated := strings.CutPrefix(kind, "[]")
		if repeated {
			field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		switch kind {
		case "string":
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
		case "bytes":
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		case "bool":
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum()
		case "int32":
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
		case "int64":
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum()
		case "map":
			entry := messageByHand(t, []string{strings.ToUpper(name[:1]) + name[1:] + "Entry", "key:string", "value:string"})
			entry.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
			message.NestedType = append(message.NestedType, entry)
			field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			field.TypeName = proto.String("." + full(line[0]) + "." + entry.GetName())
		case "Timestamp", "Duration":
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			field.TypeName = proto.String(".google.protobuf." + kind)
		default:
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			field.TypeName = proto.String(".generated." + kind)
		}
		message.Field = append(message.Field, field)
	}
	return message
}

// message is an empty message by its name.
func (v velero) message(t *testing.T, name string) *dynamicpb.Message {
	t.Helper()
	found, err := v.files.FindDescriptorByName(protoreflect.FullName(full(name)))
	require.NoError(t, err)
	descriptor, ok := found.(protoreflect.MessageDescriptor)
	require.True(t, ok, name)
	return dynamicpb.NewMessage(descriptor)
}
