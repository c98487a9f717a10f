// Package wiretest fills messages for tests that show that a codec keeps each of their fields.
package wiretest

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Filled returns a message in which each field has a value that is not its zero value, lists and maps have one element,
// and numbers differ.
func Filled[M any, P interface {
	*M
	proto.Message
}](t *testing.T) P {
	t.Helper()
	message := P(new(M))
	number := int64(0)
	fill(message.ProtoReflect(), &number)
	return message
}

func fill(message protoreflect.Message, number *int64) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
			key := protoreflect.ValueOfString("key").MapKey()
			message.Mutable(field).Map().Set(key, value(message, field.MapValue(), number))
		case field.IsList():
			list := message.Mutable(field).List()
			if field.Message() != nil {
				fill(list.AppendMutable().Message(), number)
				continue
			}
			list.Append(value(message, field, number))
		case field.Message() != nil:
			fill(message.Mutable(field).Message(), number)
		default:
			message.Set(field, value(message, field, number))
		}
	}
}

// value returns a value for a field that is not a message.
func value(message protoreflect.Message, field protoreflect.FieldDescriptor, number *int64) protoreflect.Value {
	*number++
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(*number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(*number)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(field.Name()))
	default:
		return protoreflect.ValueOfString(string(message.Descriptor().Name()) + "." + string(field.Name()))
	}
}
