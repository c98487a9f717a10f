package calls

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Cloned returns a copy of a message.
func Cloned(message any) (proto.Message, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is not a protobuf message", message)
	}
	return proto.Clone(m), nil
}

// MoveMessage makes into the message that from is; from must not be used any more.
func MoveMessage(into any, from proto.Message) error {
	target, ok := into.(proto.Message)
	if !ok || target.ProtoReflect().Type() != from.ProtoReflect().Type() {
		return CopyMessage(into, from)
	}
	proto.Reset(target)
	from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		target.ProtoReflect().Set(field, value)
		return true
	})
	target.ProtoReflect().SetUnknown(from.ProtoReflect().GetUnknown())
	return nil
}

// CopyMessage makes into a copy of from. A missing message is copied as an empty one, as over the wire.
func CopyMessage(into, from any) error {
	target, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", into)
	}
	proto.Reset(target)
	if from == nil {
		return nil
	}
	source, ok := from.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", from)
	}
	if target.ProtoReflect().Descriptor() == source.ProtoReflect().Descriptor() {
		proto.Merge(target, source)
		return nil
	}
	// These are two Go types for one message: only the wire format connects them.
	encoded, err := proto.Marshal(source)
	if err != nil {
		return status.Errorf(codes.Internal, "encode %T: %v", from, err)
	}
	if err := proto.Unmarshal(encoded, target); err != nil {
		return status.Errorf(codes.Internal, "decode %T: %v", into, err)
	}
	return nil
}
