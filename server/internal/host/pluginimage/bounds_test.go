package pluginimage

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// smallLimits are limits that small layers reach.
func smallLimits() limits {
	return limits{layers: 3, entries: 20, name: 200, stream: 64 << 10, ratio: 10, slack: 8 << 10, files: 4, removed: 5,
		bytes: 4 << 10, path: 60, depth: 3}
}

// archiveOf returns a layer.
func archiveOf(t testing.TB, files ...entry) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), Linkname: file.link,
			Typeflag: max(file.kind, tar.TypeReg)}
		require.NoError(t, w.WriteHeader(header))
		_, err := io.WriteString(w, file.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return data.Bytes()
}

// unpack takes the files out of layers, the lowest one last, and returns what is in the directory then.
func unpack(t testing.TB, most limits, layers ...[]byte) ([]string, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	x := newExtraction(root, most)
	for _, layer := range layers {
		if err = x.archive(&bounded{Reader: bytes.NewReader(layer), x: x, size: int64(len(layer))}); err != nil {
			break
		}
	}
	if err == nil {
		err = x.follow()
	}
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(dir, path)
			names = append(names, relative)
			require.True(t, entry.Type().IsRegular(), relative)
			info, err := entry.Info()
			require.NoError(t, err)
			// 0600 is that of a file which is too long
			require.Contains(t, []os.FileMode{0o644, 0o755, 0o600}, info.Mode(), relative)
		}
		return err
	}))
	return names, err
}

func many(n int, file func(i int) entry) []entry {
	var files []entry
	for i := range n {
		files = append(files, file(i))
	}
	return files
}

func TestWorkOfAnImageIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a/", 3) + "x"
	for text, files := range map[string][]entry{
		"has a name or a target of more than 200 bytes":              {executable(strings.Repeat("a/", 101)+"x", "")},
		"\"etc/x\"... has a name or a target of more than 200 bytes": {symlink("etc/x", strings.Repeat("../", 70))},
		"more than 20 files":               many(21, func(i int) entry { return executable(fmt.Sprint("bin/x", i), "") }),
		"more than 4 files below /plugins": many(5, func(i int) entry { return executable(fmt.Sprint("plugins/x", i), "") }),
		"more than 4 files below":          many(5, func(i int) entry { return symlink(fmt.Sprint("plugins/x", i), "x0") }),
		"removes more than 5 files": many(6,
			func(i int) entry { return executable(fmt.Sprint("plugins/.wh.x", i), "") }),
		"its files below /plugins have more than 4096 bytes": {executable("plugins/a", strings.Repeat("a", 4097))},
		"its files below /plugins have more than": {executable("plugins/a",
			strings.Repeat("a", 4000)), symlink("plugins/b", "a")},
		"the layers have more than 65536 bytes": {executable("bin/a", strings.Repeat("a", 66<<10))},
		"has more than 60 bytes or is more than 3 directories deep": {executable("plugins/"+
			strings.Repeat("x", 61), "")},
		"its /plugins/a/a/a/x... has more than 60 bytes or is more than 3": {executable("plugins/"+deep, "")},
		"/a/a/a/x... has more than 60 bytes or is more than 3 directories": {{name: "plugins/" + deep,
			kind: tar.TypeDir}},
		"/plugins/a/a/a/x... has more than 60 bytes or is more than 3 directo": {symlink("plugins/"+deep, "/plugins/a")},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := unpack(t, smallLimits(), archiveOf(t, files...))
			require.ErrorContains(t, err, text)
		})
	}

	layer := archiveOf(t, executable("plugins/a", "a"))
	x := newExtraction(nil, smallLimits())
	_, err := io.Copy(io.Discard, &bounded{Reader: strings.NewReader(strings.Repeat("a", 9<<10)), x: x, size: 100})
	require.ErrorContains(t, err, "a layer of 100 bytes has more than 10 times as many when it is decompressed")
	names, err := unpack(t, smallLimits(), layer, layer) // the upper one hides the lower one
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names)
	_, err = unpack(t, smallLimits(),
		archiveOf(t, many(11, func(i int) entry { return executable(fmt.Sprint("bin/x", i), "") })...),
		archiveOf(t, many(11, func(i int) entry { return executable(fmt.Sprint("bin/x", i), "") })...))
	require.ErrorContains(t, err, "more than 20 files", "the limits hold for all layers together")
}

// A name of a megabyte with half a million directories compresses to some hundred bytes.
func TestNamesWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	host := serve(t, plain)
	for i, file := range []entry{
		executable(strings.Repeat("a/", 500_000)+"x", ""),
		executable("plugins/"+strings.Repeat("a/", 500_000)+"x", ""),
		{name: "plugins/" + strings.Repeat("a/", 2000), kind: tar.TypeDir, mode: 0o755},
		symlink("plugins/x", strings.Repeat("a/", 500_000)),
	} {
		ref := fmt.Sprintf("%s/long:v%d", host, i)
		push(t, ref, imageOf(t, machine(), []entry{executable("plugins/a", "a"), file}))
		_, err := take(t, ref)
		require.ErrorContains(t, err, "bytes")
	}
}

func TestNamesOfFilesOfImages(t *testing.T) {
	t.Parallel()
	refused := []string{
		"plugins.lock", "sub/plugins.lock", "PLUGINS.LOCK", "Plugins.Lock", "plugins.lock.", "other.lock", "plugins.lock/x",
		".images.json", ".Images.JSON", ".pull-1/x", "a/.hidden", ".a", "..a", "..a/x", ".plugins.lock/x", "a.", "a ",
		"a\\b", "a:b", "plugins\u200b.lock", "plugins．lock", "\x1b[2J", "a\nb", "-a", "~", "a*", "%2e",
	}
	for _, name := range refused {
		for _, file := range []entry{
			executable("plugins/"+name, "x"), symlink("plugins/"+name, "/plugins/good"), {name: "plugins/" + name,
				link: "plugins/good", kind: tar.TypeLink},
			{name: "plugins/" + name, kind: tar.TypeDir},
		} {
			if name == ".a" && file.kind == tar.TypeDir {
				continue // see TestHiddenDirectories
			}
			names, err := unpack(t, defaultLimits(), archiveOf(t, executable("plugins/good", "x"), file))
			require.ErrorContains(t, err, "is called", "%q", name)
			require.Equal(t, []string{"good"}, names)
		}
	}
	accepted := []string{"velero-plugin-for-aws", "a.b_c+1@2", "mover.exe", "node_modules/@grpc/grpc-js/package-lock.json",
		"_x", "9"}
	var files []entry
	for _, name := range accepted {
		files = append(files, executable("plugins/"+name, "x"))
	}
	names, err := unpack(t, defaultLimits(), archiveOf(t, files...))
	require.NoError(t, err)
	require.ElementsMatch(t, accepted, names)

	names, err = unpack(t, defaultLimits(), archiveOf(t, entry{name: "plugins/root", content: "x", mode: 0o6777}))
	require.NoError(t, err, "it loses its setuid bit, see unpack")
	require.Equal(t, []string{"root"}, names)
	for _, kind := range []byte{tar.TypeChar, tar.TypeBlock, tar.TypeFifo, tar.TypeCont} {
		_, err = unpack(t, defaultLimits(), archiveOf(t, entry{name: "plugins/x", kind: kind}))
		require.ErrorContains(t, err, "its /plugins/x is neither a file nor a link")
	}
	require.True(t, isSparse(&tar.Header{PAXRecords: map[string]string{"GNU.sparse.realsize": "1"}}))
}

// The image of the data mover has restic in such a directory.
func TestHiddenDirectoriesBelongToPrograms(t *testing.T) {
	t.Parallel()
	host := serve(t, plain)
	tool := []entry{{name: "plugins/.mover/", kind: tar.TypeDir}, executable("plugins/.mover/tool", "t")}
	push(t, host+"/x:with", imageOf(t, machine(), append(tool, executable("plugins/mover", "m"))))
	image, err := Resolver{Platform: machine(), Silence: Silence(time.Minute)}.Resolve(t.Context(), host+"/x:with")
	require.NoError(t, err)
	files, err := image.Extract(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, ".mover/tool", files[0].Name)
	require.False(t, files[0].Executable, "a server does not take it for a plugin")
	require.True(t, files[1].Executable)

	push(t, host+"/x:without", imageOf(t, machine(), append(tool, executable("plugins/other", "m"))))
	_, err = take(t, host+"/x:without")
	require.ErrorContains(t, err, "its /plugins/.mover/tool: its directory is hidden, and there is no /plugins/mover to "+
		"which it could belong")
}

func TestUpperLayersRemoveFiles(t *testing.T) {
	t.Parallel()
	lower := archiveOf(t, executable("plugins/a", "a"), executable("plugins/b", "b"))
	for whiteout, want := range map[string][]string{
		"plugins/.wh.a":        {"b", "new"},
		"plugins/.wh..wh..opq": {"new"},
		".wh.plugins":          {"new"},
		".wh..wh..opq":         {"new"},
		"etc/.wh.a":            {"a", "b", "new"},
	} {
		names, err := unpack(t, defaultLimits(), archiveOf(t, executable(whiteout, ""), executable("plugins/new", "n")),
			lower)
		require.NoError(t, err)
		require.Equal(t, want, names, whiteout)
	}
}

func TestStageIsRemovedByTheNextCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := OpenStore(dir)
	require.NoError(t, err)
	stage, err := s.Stage()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(stage, "a", "b"), 0o755))
	require.NoError(t, s.lock.Close()) // as the end of the process does
	s, err = OpenStore(dir)
	require.NoError(t, err)
	require.NoDirExists(t, stage)

	stage, err = s.Stage()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(stage, "a"), []byte("other"), 0o600))
	require.ErrorContains(t, s.Add(Installed{Files: []File{{Name: "a", SHA256: "1"}}}, stage),
		"file a was changed after it was taken out of the image")
	require.NoFileExists(t, filepath.Join(dir, "a"))
	require.NoError(t, s.Close())
	for _, name := range []string{"plugins.lock", ".images.json", "sub/.pull-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".images.json"),
			fmt.Appendf(nil, `[{"image":"x","files":[{"path":%q}]}]`, name), 0o600))
		_, err = OpenStore(dir)
		require.ErrorContains(t, err, fmt.Sprintf("no image has brought file %q", name))
	}
}

func TestAnswersOfRegistriesAreBounded(t *testing.T) {
	t.Parallel()
	host := serve(t, plain)
	inner := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: imageOf(t, machine(), []entry{executable("plugins/a", "a")}), Descriptor: v1.Descriptor{
			Platform: new(machine()),
		},
	})
	for levels, want := range []string{"", "", "", "levels of indexes; name the image for linux/amd64 by its digest"} {
		ref, err := name.ParseReference(fmt.Sprintf("%s/nested:v%d", host, levels))
		require.NoError(t, err)
		require.NoError(t, remote.WriteIndex(ref, inner))
		_, err = take(t, ref.String())
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
		inner = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner})
	}
	one := imageOf(t, machine(), []entry{executable("plugins/a", "a")})
	layers, err := one.Layers()
	require.NoError(t, err)
	many, err := mutate.AppendLayers(one, slices.Repeat(layers, defaultLimits().layers)...)
	require.NoError(t, err)
	push(t, host+"/layers:v1", many)
	_, err = take(t, host+"/layers:v1")
	require.ErrorContains(t, err, "it has 201 layers, at most 200 are read")

	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = w.Write(bytes.Repeat([]byte(" "), mostText+1))
	}))
	t.Cleanup(long.Close)
	_, err = take(t, strings.TrimPrefix(long.URL, "http://")+"/x:v1")
	require.ErrorContains(t, err, "has sent more than 4194304 bytes that are not a layer")
}

func TestRegistriesAreNotAskedWithoutTLS(t *testing.T) {
	t.Parallel()
	for host, stays := range map[string]bool{"localhost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true,
		"10.0.0.1": false, "registry.local": false, "localhost.example.io": false} {
		require.Equal(t, stays, onThisMachine(host), host)
	}
	for plain, want := range map[bool]string{false: "--plain-http allows that", true: "dial"} {
		r := Resolver{Platform: machine(), Silence: Silence(time.Minute), PlainHTTP: plain}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://192.0.2.1:0/v2/", nil)
		require.NoError(t, err)
		response, err := r.transport().RoundTrip(request)
		if response != nil {
			_ = response.Body.Close()
		}
		require.ErrorContains(t, err, want)
	}
}

func FuzzArchive(f *testing.F) {
	for _, files := range [][]entry{
		{executable("plugins/a", "A"), symlink("plugins/b", "a"), {name: "plugins/c", link: "plugins/a", kind: tar.TypeLink}},
		{executable("plugins/.wh.a", ""), executable("plugins/.wh..wh..opq", ""), {name: "plugins/lib/", kind: tar.TypeDir}},
		{executable("plugins/plugins.lock", ""), executable("plugins/../etc/x", ""),
			executable("plugins/"+strings.Repeat("a/", 90)+"x", "")},
	} {
		f.Add(archiveOf(f, files...))
	}
	f.Fuzz(func(t *testing.T, layer []byte) {
		names, err := unpack(t, smallLimits(), layer)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(names), smallLimits().files)
		for _, name := range names {
			require.NoError(t, newExtraction(nil, smallLimits()).checkName(name, false))
		}
	})
}
