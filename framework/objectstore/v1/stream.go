package v1

import (
	"errors"
	"io"

	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// errStoppedEarly is the error of an upload that a store calls done without having read it to its end.
var errStoppedEarly = errors.New("PutObject returned without an error before it had read the whole object")

// uploadReader reads an upload that arrives in messages. The end of the messages is io.EOF; when the caller gives up,
// Read returns the stream's error.
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

// atEnd returns an error unless the upload was read to its end and was complete. A store that has got an object's size
// may stop before io.EOF.
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
