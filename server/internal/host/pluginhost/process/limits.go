package process

import (
	"cmp"
	"fmt"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits bounds what a plugin may use of the server. Zero takes the default, negative means no limit.
type Limits struct {
	// MessageSize is the largest message that a plugin may send, in bytes: a reply, or one message of a stream.
	// Default 256 MiB.
	MessageSize int
	// LinesPerSecond is how many lines a process may write to the logs in a second. Further lines are left out, and one
	// line has their number. Default 1000.
	LinesPerSecond int
	// Memory is how much memory a process may have mapped for itself alone, in bytes; for a Go program that is up to
	// 64 MiB more than it uses. A process that needs more dies, instead of the server, which shares the memory of the
	// pod with its plugins. Default no limit. Linux only.
	Memory int
}

func (l Limits) withDefaults() Limits {
	l.MessageSize = cmp.Or(l.MessageSize, 256<<20)
	l.LinesPerSecond = cmp.Or(l.LinesPerSecond, 1000)
	if l.MessageSize < 0 || l.MessageSize > math.MaxInt32 {
		l.MessageSize = math.MaxInt32 // gRPC's own
	}
	return l
}

// sizeError explains a message that was too large; other errors are returned as they are. The wording of gRPC is the
// same in both directions, but the limit differs: unless it is MessageSize, the plugin could not take the request.
func (l Limits) sizeError(err error) error {
	answered := status.Convert(err)
	var size, limit int
	_, notThat := fmt.Sscanf(answered.Message(), "grpc: received message larger than max (%d vs. %d)", &size, &limit)
	switch {
	case answered.Code() != codes.ResourceExhausted || notThat != nil:
		return err
	case limit == l.MessageSize:
		return status.Errorf(codes.ResourceExhausted, "its reply of %d bytes is larger than the limit of %d; "+
			"if that is right, raise plugins.limits.messageSize", size, limit)
	default:
		return status.Errorf(codes.ResourceExhausted, "the request of %d bytes is larger than the %d that the plugin takes; "+
			"a plugin that is built with cleat's framework takes more", size, limit)
	}
}
