package codec

import (
	"bytes"
	"sync"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// large is the minimum size, in bytes, of messages and fields that are handled here.
const large = 16 << 10

// New returns a codec that handles small messages like gRPC's own for protobuf. It encodes large messages into reused
// memory without clearing it, where gRPC clears a MiB first. When it decodes a large message it does not copy the large
// fields of bytes, so a reference to such a field keeps the whole message in memory. It is safe for concurrent use.
func New() encoding.CodecV2 {
	return &codec{small: encoding.GetCodecV2(protocodec.Name), large: large}
}

type codec struct {
	small   encoding.CodecV2
	large   int
	buffers pool
}

// Name returns the empty name, as in calls that name no codec.
func (*codec) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return c.small.Marshal(v)
	}
	size := proto.Size(message)
	if size < c.large {
		return c.small.Marshal(v)
	}
	buf := c.buffers.Get(size)
	encoded, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], message)
	if err != nil {
		c.buffers.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&encoded, &c.buffers)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(proto.Message)
	if !ok || data.Len() < c.large {
		return c.small.Unmarshal(data, v)
	}
	pieces := make([][]byte, 0, len(data))
	for _, piece := range data {
		pieces = append(pieces, piece.ReadOnlyData())
	}
	return c.unmarshal(bytes.Join(pieces, nil), message)
}

// unmarshal decodes the parts between the large fields, in order; protobuf allows a message to be merged from parts.
func (c *codec) unmarshal(raw []byte, message proto.Message) error {
	proto.Reset(message)
	reflected := message.ProtoReflect()
	fields := reflected.Descriptor().Fields()
	merge := proto.UnmarshalOptions{Merge: true}
	decoded := 0
	for at := 0; at < len(raw); {
		number, kind, tag := protowire.ConsumeTag(raw[at:])
		if tag < 0 {
			break // the final Unmarshal returns the error
		}
		size := protowire.ConsumeFieldValue(number, kind, raw[at+tag:])
		if size < 0 {
			break
		}
		if field := fields.ByNumber(number); size >= c.large && kind == protowire.BytesType && holdsBytes(field) {
			if err := merge.Unmarshal(raw[decoded:at], message); err != nil {
				return err
			}
			value, _ := protowire.ConsumeBytes(raw[at+tag:])
			reflected.Set(field, protoreflect.ValueOfBytes(value[:len(value):len(value)]))
			decoded = at + tag + size
		}
		at += tag + size
	}
	return merge.Unmarshal(raw[decoded:], message)
}

// holdsBytes reports whether field, which may be nil, is a single field of bytes.
func holdsBytes(field protoreflect.FieldDescriptor) bool {
	return field != nil && field.Kind() == protoreflect.BytesKind && field.Cardinality() != protoreflect.Repeated
}

// pool keeps buffers, with their content, until the next garbage collection.
type pool struct{ kept sync.Pool }

// Get implements mem.BufferPool.
func (p *pool) Get(size int) *[]byte {
	if buf, ok := p.kept.Get().(*[]byte); ok && cap(*buf) >= size {
		*buf = (*buf)[:size]
		return buf
	}
	buf := make([]byte, size)
	return &buf
}

// Put implements mem.BufferPool.
func (p *pool) Put(buf *[]byte) { p.kept.Put(buf) }
