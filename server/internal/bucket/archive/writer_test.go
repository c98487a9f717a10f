package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var when = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func entries(t *testing.T, archive []byte) (names []string, bodies map[string]string) {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(archive)) // which checks sum and length at the end
	require.NoError(t, err)
	bodies = map[string]string{}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			rest, err := io.ReadAll(gz)
			require.NoError(t, err)
			require.Zero(t, len(rest), "nothing follows the end")
			return names, bodies
		}
		require.NoError(t, err)
		require.Equal(t, byte(tar.TypeReg), h.Typeflag)
		require.EqualValues(t, 0o755, h.Mode)
		require.Equal(t, when.Unix(), h.ModTime.Unix())
		body, err := io.ReadAll(tr)
		require.NoError(t, err)
		names = append(names, h.Name)
		bodies[h.Name] = string(body)
	}
}

func TestWriterWritesVeleroLayout(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	long := strings.Repeat("n", 253)
	big := strings.Repeat("x", 1_000_000)
	require.NoError(t, w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "shop", "db-0", []byte("pod")))
	require.NoError(t, w.Item(schema.GroupResource{Group: "apps", Resource: "deployments"}, "v1beta1", false, "shop",
		"web", []byte("old")))
	require.NoError(t, w.Item(schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "v1",
		true, "", "system:a", []byte(big)))
	require.NoError(t, w.Item(schema.GroupResource{Resource: "configmaps"}, "v1", true, strings.Repeat("s", 63), long,
		nil))
	require.NoError(t, w.Close())

	names, bodies := entries(t, out.Bytes())
	require.Equal(t, "metadata/version", names[0])
	want := []string{
		"metadata/version",
		"resources/pods/namespaces/shop/db-0.json",
		"resources/pods/v1-preferredversion/namespaces/shop/db-0.json",
		"resources/deployments.apps/v1beta1/namespaces/shop/web.json",
		"resources/clusterroles.rbac.authorization.k8s.io/cluster/system:a.json",
		"resources/clusterroles.rbac.authorization.k8s.io/v1-preferredversion/cluster/system:a.json",
		"resources/configmaps/namespaces/" + strings.Repeat("s", 63) + "/" + long + ".json",
		"resources/configmaps/v1-preferredversion/namespaces/" + strings.Repeat("s", 63) + "/" + long + ".json",
	}
	require.ElementsMatch(t, want, names)
	names = want
	require.Equal(t, "1.2.0\n", bodies["metadata/version"])
	require.Equal(t, "pod", bodies[names[1]])
	require.Equal(t, "pod", bodies[names[2]])
	require.Equal(t, big, bodies[names[5]])
	require.Empty(t, bodies[names[6]])
}

func TestWriterAcceptsPathsOfEveryLength(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	var want []string
	for _, ns := range []string{"", "a", strings.Repeat("s", 40), strings.Repeat("s", 63)} {
		for n := 1; n <= 253; n++ {
			name, gr := strings.Repeat("n", n), schema.GroupResource{Group: "example.com", Resource: "widgets"}
			require.NoError(t, w.Item(gr, "v1", true, ns, name, []byte("{}")))
			want = append(want, ItemPath(gr, "", ns, name), ItemPath(gr, "v1-preferredversion", ns, name))
		}
	}
	require.NoError(t, w.Close())
	names, _ := entries(t, out.Bytes())
	require.ElementsMatch(t, want, names[1:])
}

func TestWriterRejectsNamesThatPointOutsideTheArchive(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	pods := schema.GroupResource{Resource: "pods"}
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "a\x00b"} {
		require.ErrorContains(t, w.Item(pods, "v1", true, "shop", bad, nil), "object name")
		if bad != "" {
			require.ErrorContains(t, w.Item(pods, "v1", true, bad, "db", nil), "namespace")
		}
		require.ErrorContains(t, w.Item(pods, bad, true, "shop", "db", nil), "version")
	}
	require.NoError(t, w.Item(pods, "v1", true, "shop", "db", []byte("{}")), "the archive is intact")
	require.NoError(t, w.Close())
	names, _ := entries(t, out.Bytes())
	require.Len(t, names, 3)
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestAbortTruncatesTheArchive(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	for range 1000 {
		require.NoError(t, w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "a", "b", make([]byte, 4096)))
	}
	w.Abort()
	w.Abort()
	require.Error(t, w.Close())
	gz, err := gzip.NewReader(&out)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, gz)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestWriterEndsItsGoroutines relies on synctest, which fails a test that leaves a blocked goroutine behind.
func TestWriterEndsItsGoroutines(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Writer) error{
		"Close": (*Writer).Close,
		"Abort": func(w *Writer) error { w.Abort(); return errors.New("aborted") },
	} {
		for _, space := range []int{5, 1000, 1 << 30} {
			t.Run(fmt.Sprintf("%s after %d bytes", name, space), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, err := NewWriter(&failing{left: space}, when)
					if err != nil {
						return // the sink fails at once
					}
					for range 300 {
						_ = w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "a", "b", make([]byte, 4096)) // may fail
					}
					require.Equal(t, name == "Close" && space == 1<<30, end(w) == nil)
				})
			})
		}
	}
}

func TestWriterReportsAFailingSink(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(&failing{left: 1000}, when)
	require.NoError(t, err)
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	for range 100 {
		if err = w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "a", "b", noise); err != nil {
			break
		}
	}
	require.ErrorContains(t, errors.Join(err, w.Close()), "disk full")
	require.Error(t, w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "a", "b", nil))
}

// window is how far back a deflate stream can refer.
const window = 32 << 10

func TestWriterAcceptsObjectsOfEverySize(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	noise := rand.NewChaCha8([32]byte{7})
	gr := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	want := map[string]string{"metadata/version": "1.2.0\n"}
	// Around the sizes of tar blocks, of the longest reference, of the window and of the compressed blocks.
	for _, about := range []int{0, 258, 512, 1024, 5000, window / 2, window - 1024, window - 512, window, blockSize,
		400_000} {
		for size := max(0, about-4); size <= about+4; size++ {
			for _, preferred := range []bool{true, false} {
				body := make([]byte, size)
				if size%2 == 0 {
					_, _ = noise.Read(body)
				}
				name := fmt.Sprintf("n%d-%t", size, preferred)
				require.NoError(t, w.Item(gr, "v1beta1", preferred, "ns", name, body))
				dir := "v1beta1"
				if preferred {
					want[ItemPath(gr, "", "ns", name)] = string(body)
					dir += "-preferredversion"
				}
				want[ItemPath(gr, dir, "ns", name)] = string(body)
			}
		}
	}
	require.NoError(t, w.Close())
	names, bodies := entries(t, out.Bytes())
	require.Len(t, names, len(want))
	require.Equal(t, want, bodies)
}

// FuzzWriter verifies that the standard library reads back whatever is written.
func FuzzWriter(f *testing.F) {
	f.Add("shop", "web", "v1", []byte(`{"a":1}`), uint16(3), uint16(40000))
	f.Add("", "system:x", "v1alpha1", []byte("xyz"), uint16(30000), uint16(0))
	f.Fuzz(func(t *testing.T, namespace, name, version string, body []byte, more, size uint16) {
		var out bytes.Buffer
		w, err := NewWriter(&out, when)
		require.NoError(t, err)
		gr := schema.GroupResource{Resource: "pods"}
		big := bytes.Repeat(append(body, 'x'), int(size)/(len(body)+1)+1)
		want := map[string]string{versionPath: FormatVersion + "\n"}
		for n := range int(more) % 40 {
			for _, b := range [][]byte{body, big} {
				full := fmt.Sprintf("%s%d-%d", name, n, len(b))
				if w.Item(gr, version, n%5 != 4, namespace, full, b) != nil {
					require.NoError(t, w.Close())
					return // an invalid name
				}
				if n%5 != 4 {
					want[ItemPath(gr, "", namespace, full)] = string(b)
					want[ItemPath(gr, version+"-preferredversion", namespace, full)] = string(b)
				} else {
					want[ItemPath(gr, version, namespace, full)] = string(b)
				}
			}
		}
		require.NoError(t, w.Close())
		names, bodies := entries(t, out.Bytes())
		require.Equal(t, versionPath, names[0])
		require.Len(t, names, len(want))
		require.Equal(t, want, bodies)
	})
}
