package plugins_test

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// pluginImage returns an image for this machine with a program below /plugins.
func pluginImage(t *testing.T, file, program string) v1.Image {
	t.Helper()
	content, err := os.ReadFile(programs.Build(t, program))
	require.NoError(t, err)
	return imageWith(t, func(w *tar.Writer) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "plugins/" + file, Mode: 0o755, Size: int64(len(content))}))
		_, err := w.Write(content)
		require.NoError(t, err)
	})
}

// imageWith returns an image for this machine with one layer.
func imageWith(t *testing.T, write func(*tar.Writer)) v1.Image {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	write(w)
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data.Bytes())), nil
	})
	require.NoError(t, err)
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: runtime.GOOS, Architecture: runtime.GOARCH})
	require.NoError(t, err)
	image, err = mutate.AppendLayers(image, layer)
	require.NoError(t, err)
	return image
}

// hasPlugin waits until a text is among the plugins of the running server, or is not.
func hasPlugin(s *site.Site, text string, want bool) {
	s.T.Helper()
	table := ""
	for until := time.Now().Add(5 * time.Minute); strings.Contains(table, text) != want ||
		table == ""; table = s.Must("plugin", "get", "--timeout", "2m") {
		require.True(s.T, time.Now().Before(until), "%s: %v\n%s", text, want, table)
	}
}

// TestAcceptPlugins_Add adds plugins from a registry, an OCI layout and a tarball to a running server, without
// and with a lock, removes them, and adds and removes images of the Deployment in a cluster.
func TestAcceptPlugins_Add(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	image := strings.TrimPrefix(server.URL, "http://") + "/team/first:v1"
	ref, err := name.ParseReference(image)
	require.NoError(t, err)
	first, kinds := pluginImage(t, "first", "examples/first-plugin"), pluginImage(t, "kinds", "framework/testdata/kinds")
	require.NoError(t, remote.Write(ref, first))
	archive, oci := filepath.Join(t.TempDir(), "kinds.tar"), filepath.Join(t.TempDir(), "layout")
	kindsRef, err := name.ParseReference("example.io/kinds:v1")
	require.NoError(t, err)
	require.NoError(t, tarball.WriteToFile(archive, kindsRef, kinds))
	written, err := layout.Write(oci, empty.Index)
	require.NoError(t, err)
	require.NoError(t, written.AppendImage(kinds))
	refuses := func(want string, args ...string) {
		t.Helper()
		_, note, err := s.Run(args...)
		require.Error(t, err)
		require.Contains(t, note, want)
	}

	dir := filepath.Join(t.TempDir(), "plugins")
	require.NoError(t, os.Mkdir(dir, 0o755))
	running := s.Serve("--plugin-dir", dir)
	hasPlugin(s, "example.cleat.dev/mark", false)
	require.Equal(t, filepath.Join(dir, "first")+"\n", s.Must("plugin", "add", image, "--plugin-dir", dir))
	hasPlugin(s, "example.cleat.dev/mark", true)
	refuses("is there already", "plugin", "add", image, "--plugin-dir", dir)

	s.Must("plugin", "lock", "--plugin-dir", dir)
	refuses("file kinds must not run: it is not in the lock", "plugin", "add", oci, "--plugin-dir", dir)
	require.NoFileExists(t, filepath.Join(dir, "kinds"))
	s.Must("plugin", "add", oci, "--plugin-dir", dir, "--lock")
	hasPlugin(s, "example.io/mover", true)
	s.Must("plugin", "verify", "--plugin-dir", dir)
	s.Must("plugin", "remove", oci, "--plugin-dir", dir)
	hasPlugin(s, "example.io/mover", false)
	s.Must("plugin", "add", archive, "--plugin-dir", dir) // its content is still in the lock
	hasPlugin(s, "example.io/mover", true)
	s.Must("plugin", "remove", "first", "--plugin-dir", dir)
	hasPlugin(s, "example.cleat.dev/mark", false)
	require.NotContains(t, running.Log.String(), "panic")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "a plugin, the lock and the record of images: %v", entries)

	refuses("no Deployment with the label component=velero", "plugin", "add", "a/b:v1", "--confirm")
	s.Must("install", "--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", s.Workload(0))
	refuses("stdin is not a terminal", "plugin", "add", "a/b:v1")
	s.Must("plugin", "add", "registry.example.io/a/b:v1", "--confirm", "--image-pull-policy", "Always")
	refuses("is there already, as init container a-b", "plugin", "add", "registry.example.io/a/b:v1", "--confirm")
	refuses("--lock is for a directory: use it with --plugin-dir", "plugin", "add", "a/c:v1", "--confirm", "--lock")
	d := &appsv1.Deployment{}
	require.NoError(t, s.Client.Get(t.Context(), s.Key("velero"), d))
	require.Len(t, d.Spec.Template.Spec.InitContainers, 1)
	require.Equal(t, "a-b", d.Spec.Template.Spec.InitContainers[0].Name)
	require.Equal(t, "/target", d.Spec.Template.Spec.InitContainers[0].VolumeMounts[0].MountPath)
	s.Must("plugin", "remove", "a-b")
	require.NoError(t, s.Client.Get(t.Context(), s.Key("velero"), d))
	require.Empty(t, d.Spec.Template.Spec.InitContainers)
	refuses("there is no plugin a-b", "plugin", "remove", "a-b")
	require.NoError(t, os.Rename(archive, filepath.Join(filepath.Dir(archive), "mover.tar")))
	require.Equal(t, 4, s.RunPage(t, "plugins", "Add plugins", filepath.Dir(archive)))
}
