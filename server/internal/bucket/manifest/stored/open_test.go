package stored_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/manifest/stored"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// bucket has the files of one backup by name; an error in place of a file is that of reading it.
type bucket map[string]any

func (b bucket) get(name string) (io.ReadCloser, error) {
	switch content := b[name].(type) {
	case []byte:
		return io.NopCloser(bytes.NewReader(content)), nil
	case error:
		return nil, content
	default:
		return nil, fmt.Errorf("%s: %w", name, store.ErrNotFound)
	}
}

func (b bucket) Artifact(_ context.Context, backup, name string) (io.ReadCloser, error) {
	return b.get(backup + "-" + name)
}

func (b bucket) BackupContents(_ context.Context, name string) (io.ReadCloser, error) {
	return b.get(name + ".tar.gz")
}

func packed(t *testing.T) []byte {
	t.Helper()
	var content bytes.Buffer
	w, err := archive.NewWriter(&content, time.Unix(0, 0))
	require.NoError(t, err)
	require.NoError(t, w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "shop", "web",
		[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"serviceAccountName":"web"}}`)))
	require.NoError(t, w.Close())
	return content.Bytes()
}

func TestOpenReadsTheManifestOrMakesIt(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	w, err := manifest.NewWriter(&written, manifest.Header{Backup: manifest.Backup{Name: "b", UID: "u"}},
		manifest.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Add(&manifest.Item{APIVersion: "v1", Resource: "secrets", ItemKind: "Secret", Namespace: "shop",
		Name: "key"}))
	require.NoError(t, w.Close())
	broken, denied := packed(t), errors.New("access denied")
	broken = broken[:len(broken)/2]
	for name, test := range map[string]struct {
		in     bucket
		want   string // the only item
		uid    string
		format string
		made   bool
		err    error
	}{
		"has one": {in: bucket{"b-manifest.json.gz": written.Bytes()}, want: "secrets/shop/v1/key.json", uid: "u",
			format: "1.2.0"},
		"has none": {in: bucket{"b.tar.gz": packed(t)}, want: "pods/shop/v1/web.json", uid: "given", format: "1.1.0",
			made: true},
		"nothing":        {in: bucket{}, err: store.ErrNotFound},
		"broken archive": {in: bucket{"b.tar.gz": broken}, err: archive.ErrTruncated},
		"cannot be read": {in: bucket{"b-manifest.json.gz": denied, "b.tar.gz": packed(t)}, err: denied},
		"archive cannot": {in: bucket{"b.tar.gz": denied}, err: denied},
		"manifest is torn": {in: bucket{"b-manifest.json.gz": written.Bytes()[:9], "b.tar.gz": packed(t)},
			err: io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			defer func() {
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, left)
			}()
			read, err := stored.Open(t.Context(), test.in, manifest.Backup{Name: "b", UID: "given"}, stored.Options{
				FormatVersion: "1.1.0", Table: reference.BuiltIn(), Dir: dir,
			})
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.made, read.Made)
			require.Equal(t, test.uid, read.Header().Backup.UID)
			require.Equal(t, test.format, read.Header().FormatVersion)
			var items []string
			for item, err := range read.Items() {
				require.NoError(t, err)
				items = append(items, item.String())
			}
			require.Equal(t, []string{test.want}, items)
			require.NoError(t, read.Close())
		})
	}
}
