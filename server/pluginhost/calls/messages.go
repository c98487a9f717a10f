package calls

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func Cloned(message any) (proto.Message, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is not a protobuf message", message)
	}
	return proto.Clone(m), nil
}

// copyMessage makes into a copy of from. No message at all is an empty one, as on the wire.
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
	// Two Go types for one message: only the wire format connects them.
	encoded, err := proto.Marshal(source)
	if err != nil {
		return status.Errorf(codes.Internal, "encode %T: %v", from, err)
	}
	if err := proto.Unmarshal(encoded, target); err != nil {
		return status.Errorf(codes.Internal, "decode %T: %v", into, err)
	}
	return nil
}
