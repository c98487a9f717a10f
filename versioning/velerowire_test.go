package versioning_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// veleroMessages is Velero's wire, written down by hand and not taken from our .proto files: per message its
// fields in the order of their numbers, which have no gaps. "[]" is repeated, "map" is map<string, string>, a
// type in capitals is a message.
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

// velero encodes and decodes the messages of veleroMessages.
type velero struct{ file protoreflect.FileDescriptor }

func newVelero(t *testing.T) velero {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("velero-by-hand.proto"), Package: proto.String("generated"), Syntax: proto.String("proto3"),
	}
	for line := range strings.Lines(strings.TrimSpace(veleroMessages)) {
		file.MessageType = append(file.MessageType, messageByHand(t, strings.Fields(line)))
	}
	// A registry of its own: the names are those of our generated messages.
	descriptor, err := protodesc.NewFile(file, new(protoregistry.Files))
	require.NoError(t, err)
	return velero{file: descriptor}
}

func messageByHand(t *testing.T, line []string) *descriptorpb.DescriptorProto {
	t.Helper()
	message := &descriptorpb.DescriptorProto{Name: proto.String(line[0])}
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
			field.TypeName = proto.String(".generated." + line[0] + "." + entry.GetName())
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
	descriptor := v.file.Messages().ByName(protoreflect.Name(name))
	require.NotNil(t, descriptor, name)
	return dynamicpb.NewMessage(descriptor)
}
