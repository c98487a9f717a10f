package v1

import (
	"errors"
	"io"
	"iter"

	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// pieceSize is how many bytes of an object go into one message (Velero's wire).
const pieceSize = 16384

// errStoppedEarly is what a store gets for calling an upload done that it has not read to its end.
var errStoppedEarly = errors.New("PutObject returned without an error before it had read the whole object")

// uploadReader reads an upload that arrives in messages. The end of the messages is io.EOF; a caller who
// gives up is the stream's error.
type uploadReader struct {
	rest    []byte // of the message received last
	receive func() (*objectstorev1.PutObjectRequest, error)
	err     error // how the messages ended
}

// Read implements io.Reader.
func (r *uploadReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var message *objectstorev1.PutObjectRequest
		if message, r.err = r.receive(); r.err == nil {
			r.rest = message.GetBody()
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// atEnd says whether the upload was read to its end, and ended well. A store that knows an object's size
// may stop without having seen io.EOF.
func (r *uploadReader) atEnd() error {
	n, err := r.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errStoppedEarly
	case err == io.EOF:
		return nil
	default:
		return err
	}
}

// Pieces is object in the pieces in which it travels, in either direction: full but for the last. An object
// that is empty has none. The reader's error ends the sequence, after the bytes that came before it. Each
// piece is a buffer of its own: a transport may keep it.
func Pieces(object io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			piece := make([]byte, pieceSize)
			filled, err := fill(object, piece)
			if filled > 0 && !yield(piece[:filled], nil) {
				return
			}
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// fill reads until piece is full or there is an error, and passes that on as it is. (io.ReadFull makes
// io.ErrUnexpectedEOF of a short last piece, which then looks like a reader that was cut short.)
func fill(object io.Reader, piece []byte) (filled int, err error) {
	for filled < len(piece) && err == nil {
		var n int
		n, err = object.Read(piece[filled:])
		filled += n
	}
	return filled, err
}
