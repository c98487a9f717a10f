package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// file is one entry of a test archive. A zero kind means a regular file.
type file struct {
	path, body string
	kind       byte
}

func packTar(t testing.TB, files ...file) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: 0o755, Typeflag: f.kind, Size: int64(len(f.body))}
		if f.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeSymlink {
			h.Linkname, h.Size = "/etc/passwd", 0
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, f.body)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func packFiles(t testing.TB, files ...file) []byte {
	t.Helper()
	return pack(t, packTar(t, files...))
}

func open(t testing.TB, data []byte) (*Archive, error) {
	t.Helper()
	return openLimited(t, data, Limits{})
}

// openLimited opens an archive and checks that no file is left after an error or after Close.
func openLimited(t testing.TB, data []byte, limits Limits) (*Archive, error) {
	t.Helper()
	dir := t.TempDir()
	a, err := Open(t.Context(), bytes.NewReader(data), dir, Options{Limits: limits})
	if err != nil {
		require.Nil(t, a)
		requireEmpty(t, dir)
		return nil, err
	}
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		requireEmpty(t, dir)
	})
	return a, nil
}

func requireEmpty(t testing.TB, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

var (
	pods       = schema.GroupResource{Resource: "pods"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
	deploys    = schema.GroupResource{Group: "apps", Resource: "deployments"}
	roles      = schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
)

func TestOpenIndexesUnversionedPathsOnly(t *testing.T) {
	t.Parallel()
	a, err := open(t, packFiles(t,
		file{path: "metadata/version", body: "1.1.0\n"},
		file{path: "resources/pods/namespaces/b/two.json", body: `{"n":2}`},
		file{path: "resources/pods/v1-preferredversion/namespaces/b/two.json", body: `{"n":2}`},
		file{path: "resources/pods/namespaces/a/one.json", body: `{"n":1}`},
		file{path: "resources/pods/v1-preferredversion/namespaces/a/one.json", body: `{"n":1}`},
		file{path: "./resources/deployments.apps//namespaces/b/d.json", body: `{}`},
		file{path: "resources/deployments.apps/v1beta1/namespaces/b/old.json", body: `{}`},
		file{path: "resources/namespaces/cluster/a.json", body: `{"ns":"a"}`},
		file{path: `resources/clusterroles.rbac.authorization.k8s.io/cluster/system:a\b.json`, body: `{"role":1}`},
		file{path: "resources/", kind: tar.TypeDir},
		file{path: "something/else.txt", body: "ignored"},
		file{path: "resources/README", body: "ignored"},
		file{path: "resources/pods/namespaces/a/deeper/x.json", body: "ignored"},
		file{path: "resources/pods/namespaces/a/x.yaml", body: "ignored"},
	))
	require.NoError(t, err)
	require.Equal(t, "1.1.0", a.FormatVersion(), "of Velero, and of servers before this one")
	require.True(t, a.HasResources())
	require.Equal(t, 5, a.Len())
	require.Equal(t, []schema.GroupResource{roles, deploys, namespaces, pods}, a.Resources())
	require.Equal(t, []string{"a", "b"}, a.Namespaces())
	require.Equal(t, 2, a.Count(pods))

	got := slices.Collect(a.Items(pods))
	require.Len(t, got, 2)
	require.Equal(t, "resources/pods/namespaces/a/one.json", got[0].Path())
	for i, want := range []string{`{"n":1}`, `{"n":2}`} {
		data, err := a.Read(got[i])
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	e, ok := a.Find(roles, "", `system:a\b`)
	require.True(t, ok)
	data, err := a.Read(e)
	require.NoError(t, err)
	require.Equal(t, `{"role":1}`, string(data))
	_, ok = a.Find(pods, "a", "two")
	require.False(t, ok)
	_, ok = a.Find(deploys, "b", "old")
	require.False(t, ok, "objects below a version are not indexed")
}

func TestOpenReadsArchivesFromBeforeFormat110(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "1", "1.0.0"} {
		files := []file{{path: "resources/pods/namespaces/a/one.json", body: "{}"}}
		if version != "" {
			files = append(files, file{path: "metadata/version", body: version + "\n"})
		}
		a, err := open(t, packFiles(t, files...))
		require.NoError(t, err)
		require.Equal(t, version, a.FormatVersion())
		require.Equal(t, 1, a.Len())
	}
}

func TestOpenReadsAnEmptyBackup(t *testing.T) {
	t.Parallel()
	a, err := open(t, packFiles(t, file{path: "metadata/version", body: "1.1.0\n"}))
	require.NoError(t, err)
	require.False(t, a.HasResources())
	require.Zero(t, a.Len())
}

func TestOpenIndexesManyItems(t *testing.T) {
	t.Parallel()
	var files []file
	for i := range 500 {
		files = append(files, file{
			path: fmt.Sprintf("resources/pods/namespaces/ns-%d/pod-%d.json", i%7, i),
			body: fmt.Sprintf(`{"i":%d,"pad":%q}`, i, strings.Repeat("x", i)),
		})
	}
	a, err := open(t, packFiles(t, files...))
	require.NoError(t, err)
	require.Equal(t, 500, a.Len())
	for i := range 500 {
		e, ok := a.Find(pods, fmt.Sprintf("ns-%d", i%7), fmt.Sprintf("pod-%d", i))
		require.True(t, ok)
		data, err := a.Read(e)
		require.NoError(t, err)
		require.Equal(t, files[i].body, string(data))
	}
}

func TestOpenNeedsLittleMemoryForAnObject(t *testing.T) { //nolint:paralleltest // it measures memory
	const objects = 2000
	var files []file
	for i := range objects {
		files = append(files, file{path: fmt.Sprintf("resources/configmaps/namespaces/shop/c%d.json", i), body: "{}"})
	}
	packed := packFiles(t, files...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := open(t, packed)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	const each = 4 << 10 // a buffer for each would be eight times that
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(objects*each))
}

func TestOpenUnpacksWhatIsWanted(t *testing.T) {
	t.Parallel()
	packed := packFiles(t,
		file{path: "resources/pods/namespaces/shop/web.json", body: "{}"},
		file{path: "resources/pods/namespaces/other/web.json", body: strings.Repeat(" ", 1000) + "{}"},
		file{path: "resources/namespaces/cluster/shop.json", body: `{"a":1}`})
	a, err := Open(t.Context(), bytes.NewReader(packed), t.TempDir(), Options{
		Unpacks: func(gr schema.GroupResource, namespace string) bool { return gr != pods || namespace == "shop" },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	info, err := a.spool.Stat()
	require.NoError(t, err)
	require.Equal(t, int64(len(`{}{"a":1}`)), info.Size())
	require.Equal(t, 3, a.Len())
	require.Equal(t, []string{"other", "shop"}, a.Namespaces())
	for name, content := range map[string]string{"shop": "{}", "other": ""} {
		e, found := a.Find(pods, name, "web")
		require.True(t, found)
		raw, err := a.Read(e)
		if content == "" {
			require.ErrorContains(t, err, "it was not unpacked")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, content, string(raw))
	}
}

func TestOpenDistinguishesABrokenStreamFromABrokenArchive(t *testing.T) {
	t.Parallel()
	whole := packFiles(t, file{path: "resources/pods/namespaces/a/one.json", body: strings.Repeat("{}", 5000)})
	broken := errors.New("connection reset")
	_, err := Open(t.Context(), io.MultiReader(bytes.NewReader(whole[:20]), iotest.ErrReader(broken)), t.TempDir(),
		Options{})
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrTruncated)
	_, err = Open(t.Context(), iotest.ErrReader(broken), t.TempDir(), Options{})
	require.ErrorIs(t, err, broken)
}

func TestOpenStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, bytes.NewReader(packFiles(t)), t.TempDir(), Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestOpenReportsAMissingSpoolDirectory(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), bytes.NewReader(packFiles(t)), t.TempDir()+"/missing", Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "make a temporary file for the objects of an archive, see --scratch-dir")
}

func TestAcceptRestore_BadArchives(t *testing.T) {
	t.Parallel()
	const podPath = "resources/pods/namespaces/a/one.json"
	// Bytes that do not compress, so that offsets in the packed form hit data.
	body := make([]byte, 100_000)
	seed := uint32(1)
	for i := range body {
		seed = seed*1664525 + 1013904223
		body[i] = byte(seed >> 24)
	}
	good := packFiles(t, file{path: "metadata/version", body: "1.1.0\n"}, file{path: podPath, body: string(body)})
	flipped := func(at int) []byte {
		data := bytes.Clone(good)
		data[at] ^= 0x40
		return data
	}
	rawTar := packTar(t, file{path: podPath, body: "{}"}, file{path: "resources/pods/namespaces/a/two.json", body: "{}"})
	badHeader := bytes.Clone(rawTar)
	badHeader[1024+148] ^= 0x7 // the checksum of the second header

	tests := []struct {
		name   string
		data   []byte
		limits Limits
		is     error
		says   []string
	}{
		{name: "0 bytes", data: nil, is: ErrNotArchive, says: []string{"0 bytes", "want a gzip-compressed tar"}},
		{name: "1 byte", data: []byte{0x1f}, is: ErrNotArchive, says: []string{"want a gzip-compressed tar"}},
		{name: "not gzip", data: []byte("PK\x03\x04 and so on"), is: ErrNotArchive,
			says: []string{"0x504b", "want a gzip-compressed tar"}},
		{name: "plain tar", data: rawTar, is: ErrNotArchive, says: []string{"want a gzip-compressed tar"}},
		{name: "gzip of something else", data: pack(t, bytes.Repeat([]byte("no tar at all, "), 100)), is: ErrNotArchive,
			says: []string{"not a tar"}},
		{name: "header only", data: good[:10], is: ErrTruncated, says: []string{"10 compressed bytes"}},
		{name: "cut in the gzip header", data: good[:6], is: ErrTruncated, says: []string{"gzip header"}},
		{name: "cut in an item", data: good[:len(good)/2], is: ErrTruncated, says: []string{podPath, "entry 2"}},
		{name: "cut before the checksum", data: good[:len(good)-8], is: ErrTruncated, says: []string{"after the last entry"}},
		{name: "cut in the checksum", data: good[:len(good)-3], is: ErrTruncated, says: []string{"after the last entry"}},
		{name: "flipped byte in an item", data: flipped(len(good) / 2), is: ErrCorrupt},
		{name: "flipped byte in the checksum", data: flipped(len(good) - 7), is: ErrCorrupt, says: []string{"checksum"}},
		{name: "flipped byte in a tar header", data: pack(t, badHeader), is: ErrCorrupt, says: []string{"after entry 1"}},
		{name: "tar cut inside whole gzip", data: pack(t, rawTar[:1500]), is: ErrTruncated},
		{name: "path with ..", data: packFiles(t, file{path: "resources/pods/../../../etc/passwd", body: "x"}),
			is: ErrUnsafePath, says: []string{"entry 1", `"resources/pods/../../../etc/passwd"`, "inside the archive"}},
		{name: "path that starts with ..", data: packFiles(t, file{path: "../x.json", body: "x"}), is: ErrUnsafePath},
		{name: "absolute path", data: packFiles(t, file{path: "/etc/passwd", body: "x"}), is: ErrUnsafePath,
			says: []string{`"/etc/passwd"`, "relative"}},
		{name: "symbolic link", data: packFiles(t, file{path: podPath, kind: tar.TypeSymlink}), is: ErrUnsafePath,
			says: []string{"regular files only"}},
		{name: "directory with ..", data: packFiles(t, file{path: "../../x/", kind: tar.TypeDir}), is: ErrUnsafePath},
		{name: "same object twice", data: packFiles(t, file{path: podPath, body: "{}"}, file{path: podPath, body: `{"a":1}`}),
			is: ErrDuplicate, says: []string{podPath, "once"}},
		{name: "same object twice, spelt apart", data: packFiles(t, file{path: podPath, body: "{}"},
			file{path: "./" + podPath, body: "{}"}), is: ErrDuplicate},
		{name: "resource with a dot", data: packFiles(t, file{path: "resources/pods./cluster/x.json"}), is: ErrUnsafePath,
			says: []string{`"resources/pods./cluster/x.json"`, `want it spelt like "pods"`}},
		{name: "resource in capitals", data: packFiles(t, file{path: "resources/Pods/cluster/x.json"}), is: ErrUnsafePath,
			says: []string{`want it spelt like "pods"`}},
		{name: "group in capitals", data: packFiles(t, file{path: "resources/widgets.Example.com/v1/cluster/x.json"}),
			is: ErrUnsafePath, says: []string{`"widgets.example.com"`}},
		{name: "object called .", data: packFiles(t, file{path: "resources/pods/cluster/..json"}), is: ErrUnsafePath},
		{name: "group without a resource", data: packFiles(t, file{path: "resources/.apps/cluster/x.json"}),
			is: ErrUnsafePath},
		{name: "format of the future", data: packFiles(t, file{path: "metadata/version", body: "2.0.0\n"}), is: ErrNotArchive,
			says: []string{`"2.0.0"`, "want 1.x.y"}},
		{name: "object too large", data: good, limits: Limits{ItemBytes: 99_999}, is: ErrLimit,
			says: []string{podPath, "100000 bytes", "99999"}},
		{name: "too many bytes", data: good, limits: Limits{TotalBytes: 50_000}, is: ErrLimit, says: []string{"50000"}},
		{name: "too many entries", data: good, limits: Limits{Items: 1}, is: ErrLimit,
			says: []string{"entry 2", "more than 1"}},
		{name: "path too long", data: packFiles(t, file{path: "resources/pods/namespaces/a/" + strings.Repeat("x", 2000) +
			".json", body: "{}"}), is: ErrLimit, says: []string{"at most 1024"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := openLimited(t, tt.data, tt.limits)
			require.ErrorIs(t, err, tt.is)
			for _, text := range tt.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

// TestWellCompressedArchivesAreOpened: objects that resemble each other compress to less than a 200th, with Velero's
// compressor to a thousandth.
func TestWellCompressedArchivesAreOpened(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	const objects, size = 260, 1 << 20
	body := []byte(`{"data":"` + strings.Repeat("a", size) + `"}`)
	for i := range objects {
		path := fmt.Sprintf("resources/pods/namespaces/a/p%d.json", i)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(body))}))
		_, err := w.Write(body)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, gz.Close())
	require.Greater(t, objects*size/out.Len(), 200)
	a, err := open(t, out.Bytes())
	require.NoError(t, err)
	require.Equal(t, objects, a.Len())
}

func TestCheckComparesAnObjectWithItsPath(t *testing.T) {
	t.Parallel()
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tt := range map[string]struct {
		at   Object
		meta item.Meta
		want string // in the error; empty for none
	}{
		"same": {Object{GroupResource: pods, Namespace: "a", Name: "x"},
			item.Meta{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "x"}, ""},
		"same group": {Object{GroupResource: deployments, Namespace: "a", Name: "x"},
			item.Meta{APIVersion: "apps/v1", Namespace: "a", Name: "x"}, ""},
		"same version": {Object{GroupResource: pods, Version: "v1", Name: "x"}, item.Meta{APIVersion: "v1", Name: "x"}, ""},
		"another version": {Object{GroupResource: pods, Version: "v2", Name: "x"},
			item.Meta{APIVersion: "v1", Kind: "Pod", Name: "x"}, `"v1 Pod x"`},
		"path has no group": {Object{GroupResource: pods, Name: "x"}, item.Meta{APIVersion: "apps/v1", Kind: "Pod",
			Name: "x"}, `"apps/v1 Pod x"`},
		"has no group": {Object{GroupResource: deployments, Name: "x"}, item.Meta{APIVersion: "v1", Name: "x"},
			`"v1 x"`},
		"group in capitals": {Object{GroupResource: deployments, Name: "x"}, item.Meta{APIVersion: "Apps/v1", Name: "x"},
			`"Apps/v1 x"`},
		"another name": {Object{GroupResource: pods, Namespace: "a", Name: "x"},
			item.Meta{APIVersion: "v1", Namespace: "a", Name: "y"}, `"v1 a y"`},
		"another namespace": {Object{GroupResource: pods, Namespace: "a", Name: "x"},
			item.Meta{APIVersion: "v1", Namespace: "b", Name: "x"}, `"v1 b x"`},
		"no namespace": {Object{GroupResource: pods, Namespace: "a", Name: "x"}, item.Meta{APIVersion: "v1", Name: "x"},
			"want the one that its path names"},
		"a namespace": {Object{GroupResource: pods, Name: "x"}, item.Meta{APIVersion: "v1", Namespace: "a", Name: "x"},
			"want the one that its path names"},
		"nothing":       {Object{GroupResource: pods, Name: "x"}, item.Meta{}, "want the one that its path names"},
		"foreign bytes": {Object{GroupResource: pods, Name: "x"}, item.Meta{APIVersion: "v1", Name: "\x1b[2J"}, `\x1b`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tt.at.Check(tt.meta)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// FuzzPath proves that an object has one path only.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"resources/pods/namespaces/a/x.json", "resources/deployments.apps/v1/namespaces/a/x.json",
		"resources/nodes/v1-preferredversion/cluster/x.json",
		"resources/pods./cluster/x.json", "./resources//Pods/cluster/x.json", "resources/.apps/cluster/.json",
		"resources/../pods/cluster/x.json", "/a", "", "resources",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, name string) {
		path, err := cleanPath(name)
		if err != nil {
			return
		}
		o, ok, err := parseObject(path)
		if !ok || err != nil {
			return
		}
		require.Equal(t, path, o.Path())
		require.NoError(t, checkItem(o.GroupResource, cmp.Or(o.Version, "v1"), o.Namespace, o.Name))
	})
}

// FuzzOpen opens arbitrary data and reads every entry of the index.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(packTar(f, file{path: "metadata/version", body: "1.1.0\n"}, file{path: "resources/pods/namespaces/a/one.json",
		body: "{}"}), true)
	f.Add(packTar(f, file{path: "../x", body: "{}"}), true)
	f.Add(packFiles(f, file{path: "resources/pods/cluster/one.json", body: "{}"}), false)
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		if isTar {
			data = pack(t, data)
		}
		a, err := Open(t.Context(), bytes.NewReader(data), t.TempDir(), Options{Limits: Limits{
			TotalBytes: 1 << 20, ItemBytes: 1 << 16, Items: 1000,
		}})
		if err != nil {
			return
		}
		n := 0
		for _, gr := range a.Resources() {
			for e := range a.Items(gr) {
				n++
				raw, err := a.Read(e)
				require.NoError(t, err)
				if n == 1 { // each reads the archive from its beginning
					alone, err := ReadObject(t.Context(), bytes.NewReader(data), e, 1<<16)
					require.NoError(t, err)
					require.Equal(t, raw, alone)
				}
				found, ok := a.Find(gr, e.Namespace, e.Name)
				require.True(t, ok)
				require.Equal(t, e, found)
				require.NotContains(t, strings.Split(e.Path(), "/"), "..")
			}
		}
		require.Equal(t, a.Len(), n)
		require.NoError(t, a.Close())
	})
}
