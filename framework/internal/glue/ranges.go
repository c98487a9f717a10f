package glue

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"
)

const (
	// RangeMetadata is the key of gRPC metadata by which a host asks a store for a range of an object: "OFFSET LENGTH".
	RangeMetadata = "cleat-range"
	// PartMetadata is the key of the header by which a store says that it sends that range: "OFFSET SIZE".
	PartMetadata = "cleat-part"
)

// Range is a part of an object that a caller asks for.
type Range struct {
	// Offset is the first byte. A negative one counts from the end of the object.
	Offset int64
	// Length is the number of bytes; 0 means all up to the end. Of a range that exceeds the object only the bytes that are
	// there are sent.
	Length int64
}

// In returns the range in an object of a size. It is empty if it begins behind the end.
func (r Range) In(size int64) (offset, length int64) {
	offset = r.Offset
	if offset < 0 {
		offset = max(0, size+offset)
	}
	offset = min(offset, size)
	length = size - offset
	if r.Length > 0 {
		length = min(length, r.Length)
	}
	return offset, length
}

// Part is the range of an object that a store sends.
type Part struct {
	// Offset is the first byte.
	Offset int64
	// Size is the size of the whole object.
	Size int64
}

// WithRange returns a context for a GetObject that asks for a range.
func WithRange(ctx context.Context, r Range) context.Context {
	return metadata.AppendToOutgoingContext(ctx, RangeMetadata, fmt.Sprintf("%d %d", r.Offset, r.Length))
}

// SentRange returns the range for which the caller of a GetObject asks, or nil.
func SentRange(ctx context.Context) *Range {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return rangeOf(sent)
}

// ReceivedRange returns the range for which a GetObject was called, or nil.
func ReceivedRange(ctx context.Context) *Range {
	received, _ := metadata.FromIncomingContext(ctx)
	return rangeOf(received)
}

func rangeOf(from metadata.MD) *Range {
	var r Range
	if !numbers(from, RangeMetadata, &r.Offset, &r.Length) || r.Length < 0 {
		return nil
	}
	return &r
}

// Header returns the header that says that a part is sent.
func (p Part) Header() metadata.MD {
	return metadata.Pairs(PartMetadata, fmt.Sprintf("%d %d", p.Offset, p.Size))
}

// PartOf returns the part that a header is about; nil for a whole object.
func PartOf(header metadata.MD) *Part {
	var p Part
	if !numbers(header, PartMetadata, &p.Offset, &p.Size) || p.Offset < 0 || p.Size < p.Offset {
		return nil
	}
	return &p
}

// numbers reads the two numbers of the last value of a key.
func numbers(from metadata.MD, key string, a, b *int64) bool {
	values := from.Get(key)
	if len(values) == 0 {
		return false
	}
	n, err := fmt.Sscanf(values[len(values)-1], "%d %d", a, b)
	return n == 2 && err == nil
}
