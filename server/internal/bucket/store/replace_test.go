package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// upper is a rewriting that can be repeated.
func upper(_ context.Context, from io.Reader, to io.Writer) error {
	old, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	for piece := range bytes.Lines(bytes.ToUpper(old)) {
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func stored(content string) *memory {
	objects := newMemory()
	objects.objects["bucket/backups/b1/b1.tar.gz"] = []byte(content)
	return objects
}

func TestArchiveIsReplaced(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*memory) objectstore.Store{
		"at once":                  func(m *memory) objectstore.Store { return m },
		"after an attempt at once": func(m *memory) objectstore.Store { return interrupted{m, 0} },
		"after a broken attempt":   func(m *memory) objectstore.Store { return interrupted{m, 3} },
		"after a whole attempt":    func(m *memory) objectstore.Store { return interrupted{m, -1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := stored("a\nb\nc\n")
			err := store.New(wrap(objects), "bucket", "").ReplaceBackupContents(t.Context(), "b1", upper)
			require.NoError(t, err)
			require.Equal(t, "A\nB\nC\n", objects.content("backups/b1/b1.tar.gz"))
		})
	}
}

func TestArchiveStaysIfItCannotBeReplaced(t *testing.T) {
	t.Parallel()
	full := errors.New("bucket is full")
	for name, test := range map[string]struct {
		rewrite func(context.Context, io.Reader, io.Writer) error
		wrap    func(*memory) objectstore.Store
		fault   func(call string) error
		want    string
	}{
		"it cannot be rewritten": {rewrite: func(_ context.Context, _ io.Reader, to io.Writer) error {
			_, _ = io.WriteString(to, "half")
			return full
		}, want: "bucket is full"},
		"it cannot be stored": {fault: func(call string) error {
			if call == "put backups/b1/b1.tar.gz" {
				return full
			}
			return nil
		}, want: `replace backups/b1/b1.tar.gz in bucket "bucket": bucket is full`},
		"it cannot be read": {fault: func(call string) error {
			if call == "get backups/b1/b1.tar.gz" {
				return full
			}
			return nil
		}, want: "bucket is full"},
		"the store takes it for granted": {wrap: func(m *memory) objectstore.Store { return lazyReplace{m} },
			want: "before it had read the whole archive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := stored("old\n")
			objects.fault = test.fault
			var used objectstore.Store = objects
			if test.wrap != nil {
				used = test.wrap(objects)
			}
			rewrite := test.rewrite
			if rewrite == nil {
				rewrite = upper
			}
			err := store.New(used, "bucket", "").ReplaceBackupContents(t.Context(), "b1", rewrite)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, "old\n", objects.content("backups/b1/b1.tar.gz"))
		})
	}
	err := store.New(newMemory(), "bucket", "").ReplaceBackupContents(t.Context(), "b1", upper)
	require.ErrorIs(t, err, store.ErrNotFound)
	err = store.New(newMemory(), "bucket", "").ReplaceBackupContents(t.Context(), "../b1", upper)
	require.ErrorContains(t, err, "cannot be the name")
}

// lazyReplace reports success without reading.
type lazyReplace struct{ *memory }

func (lazyReplace) PutObject(context.Context, string, string, io.Reader) error { return nil }

func TestReplacementEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	objects := stored("old\n")
	err := store.New(objects, "bucket", "").ReplaceBackupContents(ctx, "b1",
		func(ctx context.Context, _ io.Reader, _ io.Writer) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "old\n", objects.content("backups/b1/b1.tar.gz"))
}
