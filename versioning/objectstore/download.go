package objectstore

import (
	"context"
	"io"

	"github.com/cleat-dev/cleat/framework/hostapi"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// download reads an object that arrives in messages. Only the end of the stream is io.EOF, so an object cut
// short because the plugin died is an error and never a shorter object.
type download struct {
	receive func() (*objectstorev1.Bytes, error)
	wrap    func(error) error
	cancel  context.CancelFunc

	part *hostapi.Part // nil for the whole object
	rest []byte        // of the message received last
	err  error         // how the messages ended
}

// PartOf returns the range of an object that the reader of a GetObject has; nil if it has the whole object.
func PartOf(body io.Reader) *hostapi.Part {
	if opened, ok := body.(interface{ Part() *hostapi.Part }); ok {
		return opened.Part()
	}
	return nil
}

// Part returns the range of the object; nil for the whole.
func (d *download) Part() *hostapi.Part { return d.part }

// next receives a message.
func (d *download) next() {
	message, err := d.receive()
	if err != nil {
		d.cancel()
		if err != io.EOF {
			err = d.wrap(err)
		}
		d.err = err
		return
	}
	d.rest = message.GetData()
}

// first receives the first message, and returns why there is none.
func (d *download) first() error {
	if d.next(); d.err != io.EOF {
		return d.err
	}
	return nil
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(d.rest) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		d.next()
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close ends the download. The plugin's call is cancelled if it is still sending.
func (d *download) Close() error {
	d.cancel()
	return nil
}
