package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var when = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func entries(t *testing.T, archive []byte) (names []string, bodies map[string]string) {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	bodies = map[string]string{}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
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

func TestWriterKeepsTheLayoutOfVelero(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	long := strings.Repeat("n", 253)
	big := strings.Repeat("x", 1_000_000)
	require.NoError(t, w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "shop", "db-0", []byte("pod")))
	require.NoError(t, w.Item(schema.GroupResource{Group: "apps", Resource: "deployments"}, "v1beta1", false, "shop", "web", []byte("old")))
	require.NoError(t, w.Item(schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "v1", true, "", "system:a", []byte(big)))
	require.NoError(t, w.Item(schema.GroupResource{Resource: "configmaps"}, "v1", true, strings.Repeat("s", 63), long, nil))
	require.NoError(t, w.Close())

	names, bodies := entries(t, out.Bytes())
	require.Equal(t, []string{
		"metadata/version",
		"resources/pods/namespaces/shop/db-0.json",
		"resources/pods/v1-preferredversion/namespaces/shop/db-0.json",
		"resources/deployments.apps/v1beta1/namespaces/shop/web.json",
		"resources/clusterroles.rbac.authorization.k8s.io/cluster/system:a.json",
		"resources/clusterroles.rbac.authorization.k8s.io/v1-preferredversion/cluster/system:a.json",
		"resources/configmaps/namespaces/" + strings.Repeat("s", 63) + "/" + long + ".json",
		"resources/configmaps/v1-preferredversion/namespaces/" + strings.Repeat("s", 63) + "/" + long + ".json",
	}, names)
	require.Equal(t, "1.1.0\n", bodies["metadata/version"])
	require.Equal(t, "pod", bodies[names[1]])
	require.Equal(t, "pod", bodies[names[2]])
	require.Equal(t, big, bodies[names[5]])
	require.Empty(t, bodies[names[6]])
}

func TestWriterTakesPathsOfEveryLength(t *testing.T) {
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
	require.Equal(t, want, names[1:])
}

func TestWriterRefusesNamesThatLeaveTheArchive(t *testing.T) {
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
