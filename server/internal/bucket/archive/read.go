package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// errFound ends a scan that has found what it looks for.
var errFound = errors.New("found")

// ReadObject returns an object of the tar.gz in r, of at most so many bytes, and nil if there is none. It reads no
// further than to the object, so the checksum of the archive is not verified.
func ReadObject(ctx context.Context, r io.Reader, wanted Entry, most int64) (content []byte, err error) {
	_, err = scan(ctx, r, DefaultLimits(), func(o scanned) error {
		if o.version != "" || (Entry{GroupResource: o.gr, Namespace: o.namespace, Name: o.name}) != wanted {
			return nil
		}
		found, err := io.ReadAll(io.LimitReader(o.body, most+1))
		if err != nil {
			return o.explain(err)
		}
		if int64(len(found)) > most {
			return fmt.Errorf("%w: %s has more than %d bytes", ErrLimit, o.where, most)
		}
		content = found
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return content, err
}
