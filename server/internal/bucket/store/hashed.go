package store

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Hashed is a stored file that is hashed while it is read.
type Hashed struct {
	*summed
	io.Closer
}

// Hashed returns a file of a backup or restore as it is stored, compressed. It returns ErrNotFound if there is none.
func (s *Store) Hashed(ctx context.Context, kind velerov1.DownloadTargetKind, name string) (*Hashed, error) {
	key, err := s.layout.download(kind, name)
	if err != nil {
		return nil, err
	}
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Hashed{newSummed(body), body}, nil
}

// Digest reads the rest of the file, and returns the digest of all of it.
func (h *Hashed) Digest() (string, error) {
	if _, err := io.Copy(io.Discard, h); err != nil {
		return "", fmt.Errorf("read the rest of a file for its digest: %w", err)
	}
	return h.total().SHA256, nil
}

// DecodeHashedList is DecodeList with the digest of the file, "" if there is none.
func DecodeHashedList[S ~[]E, E any](
	ctx context.Context, s *Store, kind velerov1.DownloadTargetKind, name string,
) (list S, digest string, err error) {
	var body *Hashed
	open := func() (io.ReadCloser, error) {
		if body, err = s.Hashed(ctx, kind, name); err != nil {
			return nil, err
		}
		plain, err := gzip.NewReader(body)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read %s of %q, want gzip: %w", kind, name, markDamage(err)), body.Close())
		}
		return &gunzipped{Reader: plain, body: body}, nil
	}
	for element, err := range listOf[E](string(kind), name, LimitsOf(kind), open) {
		if err != nil {
			return nil, "", err
		}
		list = append(list, element)
	}
	if body != nil {
		digest = body.total().SHA256 // the list has been read to its end
	}
	return list, digest, nil
}
