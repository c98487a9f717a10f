package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ReplaceBackupContents replaces the archive of a backup. rewrite gets the archive as it is stored, compressed, and
// writes the new one, which is stored at the same time; no file holds either. An error of rewrite or of the object
// store leaves the archive unchanged. So does the end of the process, in object stores whose objects appear whole. It
// returns ErrNotFound if there is no archive.
//
// An object store that repeats a failed call calls rewrite again, with the archive that is stored by then. If it is the
// new archive, rewrite must leave it unchanged.
func (s *Store) ReplaceBackupContents(
	ctx context.Context, name string, rewrite func(ctx context.Context, from io.Reader, to io.Writer) error,
) error {
	if err := checkName(name); err != nil {
		return err
	}
	key := s.layout.contents(name)
	body := &rewriting{ctx: ctx, open: func(ctx context.Context) (io.ReadCloser, error) { return s.open(ctx, key) },
		rewrite: rewrite}
	if err := body.begin(); err != nil {
		return err
	}
	err := s.objects.PutObject(ctx, s.bucket, key, body)
	body.stop()
	if err == nil && !body.sawEnd {
		err = errShortTaken
	}
	if err != nil {
		return fmt.Errorf("replace %s in bucket %q: %w", key, s.bucket, err)
	}
	return nil
}

// rewriting is the new archive while it is made of the old one. It is read by one goroutine at a time.
type rewriting struct {
	ctx     context.Context
	open    func(context.Context) (io.ReadCloser, error)
	rewrite func(ctx context.Context, from io.Reader, to io.Writer) error

	out    *io.PipeReader // nil between two attempts
	cancel context.CancelFunc
	ended  chan struct{} // closed when rewrite has returned
	sawEnd bool          // the reader has, since it has last begun
}

// begin opens the old archive and starts to rewrite it.
func (r *rewriting) begin() error {
	ctx, cancel := context.WithCancel(r.ctx)
	from, err := r.open(ctx)
	if err != nil {
		cancel()
		return err
	}
	out, to := io.Pipe()
	r.out, r.cancel, r.ended, r.sawEnd = out, cancel, make(chan struct{}), false
	go func() {
		defer close(r.ended)
		err := r.rewrite(ctx, from, to)
		_ = from.Close()           // only read from
		_ = to.CloseWithError(err) // nil is the regular end
	}()
	return nil
}

// stop ends an attempt.
func (r *rewriting) stop() {
	if r.out == nil {
		return
	}
	_ = r.out.CloseWithError(errAborted)
	r.cancel()
	<-r.ended
	r.out = nil
}

// Read implements io.Reader.
func (r *rewriting) Read(p []byte) (int, error) {
	if r.out == nil {
		if err := r.begin(); err != nil {
			return 0, err
		}
	}
	n, err := r.out.Read(p)
	r.sawEnd = r.sawEnd || errors.Is(err, io.EOF)
	return n, err
}

// Seek implements io.Seeker. It returns to the start only.
func (r *rewriting) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("the archive can be read from its start only")
	}
	r.stop()
	r.sawEnd = false
	return 0, nil
}
