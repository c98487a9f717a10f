package release

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptPlugins_Dynamic starts plugins that are linked dynamically in the file system of the server's image, and in
// one that has nothing but the server.
func TestAcceptPlugins_Dynamic(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("it runs programs in the file system of an image, which needs Linux and root")
	}
	cc, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	compiler, err := exec.LookPath(strings.TrimSpace(string(cc)))
	if err != nil {
		t.Skipf("it builds a plugin with cgo, which needs a C compiler: %v", err)
	}
	tried, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput()
	if err != nil {
		t.Skipf("it needs namespaces: %v: %s", err, tried)
	}
	dir := t.TempDir()
	run := func(program string, args ...string) {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	programs.Depend(t, "./framework/...")
	dynamic, needy := filepath.Join(dir, "dynamic"), filepath.Join(dir, "needy")
	run("go", "build", "-o", dynamic, "./testdata/dynamic")
	absent := filepath.Join(dir, "libabsent.so.7")
	run(compiler, "-shared", "-o", absent, "-Wl,-soname,libabsent.so.7", "-x", "c", os.DevNull)
	run("go", "build", "-ldflags=-extldflags=-Wl,--no-as-needed,"+absent, "-o", needy, "./testdata/dynamic")

	image := withLibraries(t, runtime.GOARCH)
	image.Programs = []Program{{Name: "cleat", Path: programs.Build(t, "server/cmd/cleat")}}
	whole := rootOf(t, image, dynamic, needy)
	image.base = base{}
	scratch := rootOf(t, image, dynamic, needy)
	info := func(root, plugin string) string {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--root="+root,
			"/cleat", "plugin", "info", "/plugins/"+plugin)
		cmd.Env = []string{"HOME=/tmp"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out) // it says what is wrong with the file
		return string(out)
	}

	out := info(whole, "dynamic")
	require.Regexp(t, `example\.io/dynamic`, out)
	require.Contains(t, out, "secrets", "what it applies to, which it says when all libraries are loaded")

	out = info(whole, "needy")
	require.Contains(t, out, "libabsent.so.7: cannot open shared object file", "the loader names the library")

	out = info(scratch, "dynamic")
	require.Regexp(t, `its loader /lib\S*/ld-linux\S+ is not here; build it with CGO_ENABLED=0`, out)
}

// rootOf unpacks an image, and puts plugins into it.
func rootOf(t *testing.T, b Built, plugins ...string) string {
	t.Helper()
	image, err := b.Image()
	require.NoError(t, err)
	stream := mutate.Extract(image)
	defer stream.Close()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	files := tar.NewReader(stream)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, root.MkdirAll(filepath.Dir(filepath.Clean(header.Name)), 0o755))
		switch header.Typeflag {
		case tar.TypeDir:
			require.NoError(t, root.MkdirAll(filepath.Clean(header.Name), 0o755))
		case tar.TypeSymlink:
			require.NoError(t, root.Symlink(header.Linkname, header.Name))
		default:
			content, err := io.ReadAll(files)
			require.NoError(t, err)
			require.NoError(t, root.WriteFile(header.Name, content, os.FileMode(header.Mode).Perm()))
		}
	}
	for _, name := range []string{"plugins", "proc", "dev"} {
		require.NoError(t, root.MkdirAll(name, 0o755))
	}
	require.NoError(t, root.WriteFile("dev/null", nil, 0o666)) // the programs of this test only read it
	for _, plugin := range plugins {
		require.NoError(t, programs.CopyFile(plugin, filepath.Join(dir, "plugins", filepath.Base(plugin))))
	}
	return dir
}
