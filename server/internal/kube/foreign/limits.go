package foreign

import (
	"errors"
	"fmt"
	"io"
)

// ErrInvalid means that a document is invalid, so that reading it again is useless.
var ErrInvalid = errors.New("invalid JSON")

// Limits bound a document. All of them must be set, except that Elements and Element are for lists only.
type Limits struct {
	Bytes    int64 // of the document, after it was decompressed
	Elements int   // of the list
	Element  int64 // bytes of one element of the list
	// of the document: objects, lists, members, strings, numbers; memory grows with them rather than with bytes
	Values int
	Depth  int // of objects and lists in each other
}

// limited reads at most the bytes of a document, and at most the bytes of an element between two calls of next. In
// contrast to io.LimitReader, it returns an error at its limit.
type limited struct {
	r           io.Reader
	limits      Limits
	read, since int64 // since the last call of next
	err         error // of r
}

func (l *limited) next() { l.since = 0 }

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	left := l.limits.Bytes - l.read + 1
	if l.limits.Element > 0 {
		if left = min(left, l.limits.Element-l.since); left <= 0 { // a decoder does not read on while it has an element
			return 0, invalid("", "an element is larger than the limit of %d bytes", l.limits.Element)
		}
	}
	n, err := l.r.Read(p[:min(int64(len(p)), left)])
	l.read, l.since = l.read+int64(n), l.since+int64(n)
	if l.read > l.limits.Bytes {
		return 0, invalid("", "it is larger than the limit of %d bytes", l.limits.Bytes)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// invalid returns an error about a value at a JSON pointer, which is empty for the document.
func invalid(at, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if at == "" {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrInvalid, at, err)
}
