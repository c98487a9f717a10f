package objectstore

import (
	"context"
	"io"

	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// download reads an object that arrives in messages. Only the end of the stream is io.EOF, so an object cut
// short because the plugin died is an error and never a shorter object.
type download struct {
	receive func() (*objectstorev1.Bytes, error)
	wrap    func(error) error
	cancel  context.CancelFunc

	rest []byte // of the message received last
	err  error  // how the messages ended
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
		message, err := d.receive()
		if err != nil {
			d.cancel()
			if err != io.EOF {
				err = d.wrap(err)
			}
			d.err = err
			continue
		}
		d.rest = message.GetData()
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
