package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	podsType    = schema.GroupResource{Resource: "pods"}
	claimsType  = schema.GroupResource{Resource: "persistentvolumeclaims"}
	widgetsType = schema.GroupResource{Group: "example.io", Resource: "widgets"}
)

// before returns an archive with pods a and b, a claim, and a widget in two versions.
func before(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	require.NoError(t, w.Item(podsType, "v1", true, "shop", "a", []byte("pod a")))
	require.NoError(t, w.Item(widgetsType, "v2", true, "shop", "w", []byte("widget v2")))
	require.NoError(t, w.Item(widgetsType, "v1", false, "shop", "w", []byte("widget v1")))
	require.NoError(t, w.Item(podsType, "v1", true, "shop", "b", []byte("pod b")))
	require.NoError(t, w.Item(claimsType, "v1", true, "shop", "data", []byte("claim")))
	require.NoError(t, w.Close())
	return out.Bytes()
}

// added is one call of Changes.Item.
type added struct {
	gr        schema.GroupResource
	version   string
	preferred bool
	name      string
	raw       string
}

func changesOf(t *testing.T, items ...added) *Changes {
	t.Helper()
	changes, err := NewChanges(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, changes.Close()) })
	for _, i := range items {
		require.NoError(t, changes.Item(i.gr, i.version, i.preferred, "shop", i.name, []byte(i.raw)))
	}
	return changes
}

func TestRewriteReplacesInPlaceAndAddsAtTheEnd(t *testing.T) {
	t.Parallel()
	old, _ := entries(t, before(t))
	for name, test := range map[string]struct {
		items   []added
		bodies  map[string]string // that differ from before
		more    []string          // paths at the end
		without string            // path that is gone
		added   []Entry
	}{
		"nothing": {},
		"replaced": {
			items: []added{{podsType, "v1", true, "b", "changed, and longer than before"}},
			bodies: map[string]string{
				"resources/pods/namespaces/shop/b.json":                     "changed, and longer than before",
				"resources/pods/v1-preferredversion/namespaces/shop/b.json": "changed, and longer than before",
			},
		},
		"the last change counts": {
			items: []added{{podsType, "v1", true, "b", "1"}, {podsType, "v1", true, "b", "2"}},
			bodies: map[string]string{
				"resources/pods/namespaces/shop/b.json": "2", "resources/pods/v1-preferredversion/namespaces/shop/b.json": "2",
			},
		},
		"added": {
			items: []added{{podsType, "v1", true, "c", "pod c"}, {claimsType, "v1", true, "data", "new claim"},
				{podsType, "v1", true, "0", "pod 0"}},
			bodies: map[string]string{
				"resources/persistentvolumeclaims/namespaces/shop/data.json":                     "new claim",
				"resources/persistentvolumeclaims/v1-preferredversion/namespaces/shop/data.json": "new claim",
				"resources/pods/namespaces/shop/c.json":                                          "pod c",
				"resources/pods/v1-preferredversion/namespaces/shop/c.json":                      "pod c",
				"resources/pods/namespaces/shop/0.json":                                          "pod 0",
				"resources/pods/v1-preferredversion/namespaces/shop/0.json":                      "pod 0",
			},
			more: []string{
				"resources/pods/namespaces/shop/c.json", "resources/pods/v1-preferredversion/namespaces/shop/c.json",
				"resources/pods/namespaces/shop/0.json", "resources/pods/v1-preferredversion/namespaces/shop/0.json",
			},
			added: []Entry{{GroupResource: podsType, Namespace: "shop", Name: "c"},
				{GroupResource: podsType, Namespace: "shop", Name: "0"}},
		},
		"both versions": {
			items: []added{{widgetsType, "v2", true, "w", "new v2"}, {widgetsType, "v1", false, "w", "new v1"}},
			bodies: map[string]string{
				"resources/widgets.example.io/namespaces/shop/w.json":                     "new v2",
				"resources/widgets.example.io/v2-preferredversion/namespaces/shop/w.json": "new v2",
				"resources/widgets.example.io/v1/namespaces/shop/w.json":                  "new v1",
			},
		},
		"another version is preferred now": {
			items: []added{{widgetsType, "v3", true, "w", "v3"}},
			bodies: map[string]string{
				"resources/widgets.example.io/namespaces/shop/w.json":                     "v3",
				"resources/widgets.example.io/v3-preferredversion/namespaces/shop/w.json": "v3",
			},
			more:    []string{"resources/widgets.example.io/v3-preferredversion/namespaces/shop/w.json"},
			without: "resources/widgets.example.io/v2-preferredversion/namespaces/shop/w.json",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := before(t)
			changes := changesOf(t, test.items...)
			var want []string
			for _, path := range old {
				if path != test.without {
					want = append(want, path)
				}
			}
			want = append(want, test.more...)
			_, bodies := entries(t, source)
			for range 2 { // changes can be used again
				var out bytes.Buffer
				added, err := Rewrite(t.Context(), bytes.NewReader(source), &out, changes, when)
				require.NoError(t, err)
				require.Equal(t, test.added, added)
				names, got := entries(t, out.Bytes())
				require.Equal(t, want, names)
				for _, path := range names {
					body, changed := test.bodies[path]
					if !changed {
						body = bodies[path]
					}
					require.Equal(t, body, got[path], path)
				}
				read, err := open(t, out.Bytes())
				require.NoError(t, err, "it can be restored")
				require.Equal(t, 4+len(test.added), read.Len())
			}
		})
	}
}

func TestRewriteOfABrokenArchiveIsNoArchive(t *testing.T) {
	t.Parallel()
	whole := before(t)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	gone := errors.New("connection lost")
	for name, test := range map[string]struct {
		source io.Reader
		want   error
	}{
		"empty":       {bytes.NewReader(nil), ErrTruncated},
		"no gzip":     {strings.NewReader(strings.Repeat("no archive", 100)), ErrCorrupt},
		"short":       {bytes.NewReader(whole[:len(whole)-9]), ErrTruncated},
		"half":        {bytes.NewReader(whole[:len(whole)/2]), ErrTruncated},
		"flipped":     {bytes.NewReader(flipped), ErrCorrupt},
		"interrupted": {io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failingReader{gone}), gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, err := Rewrite(t.Context(), test.source, &out, changesOf(t, added{podsType, "v1", true, "a", "new"}), when)
			require.ErrorIs(t, err, test.want)
			_, err = open(t, out.Bytes())
			require.Error(t, err)
		})
	}
}

// failingReader is a source whose connection breaks.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestRewriteStopsWithItsContextAndItsSink(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	_, err := Rewrite(ctx, bytes.NewReader(before(t)), io.Discard, changesOf(t), when)
	require.ErrorIs(t, err, stopped)

	full := errors.New("no space left")
	_, err = Rewrite(t.Context(), bytes.NewReader(before(t)), failingSink{full}, changesOf(t), when)
	require.ErrorIs(t, err, full)
}

type failingSink struct{ err error }

func (f failingSink) Write([]byte) (int, error) { return 0, f.err }

func TestChangesRefuseNamesThatPointOutsideTheArchive(t *testing.T) {
	t.Parallel()
	changes := changesOf(t)
	require.Error(t, changes.Item(podsType, "v1", true, "shop", "../a", nil))
	require.Error(t, changes.Item(podsType, "v1", true, "..", "a", nil))
	require.Error(t, changes.Item(podsType, "", true, "shop", "a", nil))
	require.Zero(t, changes.Len())
	_, err := NewChanges("/does/not/exist")
	require.ErrorContains(t, err, "--scratch-dir")
}

// TestRewriteOfManyObjects rewrites an archive with many objects, of which each tenth changes.
func TestRewriteOfManyObjects(t *testing.T) {
	t.Parallel()
	const objects = 20_000
	var old bytes.Buffer
	w, err := NewWriter(&old, when)
	require.NoError(t, err)
	changes := changesOf(t)
	name := func(i int) string { return "pod-" + time.Unix(int64(i), 0).UTC().Format("20060102150405") }
	for i := range objects {
		require.NoError(t, w.Item(podsType, "v1", true, "shop", name(i), []byte("old")))
		if i%10 == 0 {
			require.NoError(t, changes.Item(podsType, "v1", true, "shop", name(i), []byte("new")))
		}
	}
	require.NoError(t, w.Close())
	var out bytes.Buffer
	added, err := Rewrite(t.Context(), &old, &out, changes, when)
	require.NoError(t, err)
	require.Empty(t, added)
	read, err := open(t, out.Bytes())
	require.NoError(t, err)
	require.Equal(t, objects, read.Len())
	changed := 0
	for entry := range read.Items(podsType) {
		raw, err := read.Read(entry)
		require.NoError(t, err)
		if string(raw) == "new" {
			changed++
		}
	}
	require.Equal(t, objects/10, changed)
}
