package plugins_test

import (
	"archive/tar"
	"crypto"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
	"github.com/cleat-dev/cleat/server/test/site"
)

// images is a registry, and the key of somebody who signs images.
type images struct {
	t      *testing.T
	host   string
	key    string // path of the public one
	signer signature.Signer
}

func newImages(t *testing.T, s *site.Site) *images {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "",
		0))))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "key.pem")
	s.Must("key", "create", "--out", path)
	signer, err := signature.LoadSignerFromPEMFile(path, crypto.SHA256, cryptoutils.SkipPassword)
	require.NoError(t, err)
	return &images{t: t, host: strings.TrimPrefix(server.URL, "http://"), key: path + ".pub", signer: signer}
}

// push pushes an image, signed or not, and returns its name and the one by its digest.
func (i *images) push(image, content string, signed bool) (ref, pinned string) {
	i.t.Helper()
	parsed, err := name.NewTag(i.host + "/" + image)
	require.NoError(i.t, err)
	made := imageWith(i.t, func(w *tar.Writer) {
		require.NoError(i.t, w.WriteHeader(&tar.Header{Name: "plugins/a", Mode: 0o755, Size: int64(len(content))}))
		_, err := io.WriteString(w, content)
		require.NoError(i.t, err)
	})
	require.NoError(i.t, remote.Write(parsed, made))
	digest, err := made.Digest()
	require.NoError(i.t, err)
	if signed {
		require.NoError(i.t, pluginimage.Sign(parsed.Context().Digest(digest.String()), i.signer))
	}
	return parsed.String(), parsed.String() + "@" + digest.String()
}

// TestAcceptSecurity_SignedPlugins acts as somebody who can write to a registry. With a key, no image enters a cluster
// that the holder of the key has not signed, and what enters is named by the digest that was verified: a tag that leads
// elsewhere later changes nothing.
func TestAcceptSecurity_SignedPlugins(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	i := newImages(t, s)
	server, pinnedServer := i.push("team/cleat:v1", "server", true)
	mover, pinnedMover := i.push("team/cleat-kopia:v1", "mover", true)
	good, pinned := i.push("team/good:v1", "good", true)
	bad, _ := i.push("team/bad:v1", "bad", false)
	namespace := s.Workload(0)
	installing := func(more ...string) []string {
		return append([]string{"install", "--no-default-backup-location", "--no-secret", "--rbac", "least",
			"--rbac-namespaces", namespace, "--use-node-agent", "--image", server, "--key", i.key}, more...)
	}
	refuses := func(want string, args ...string) {
		t.Helper()
		_, errs, err := s.Run(args...)
		require.Error(t, err, args)
		require.Contains(t, errs, want)
	}
	installed := func() (all []string) {
		t.Helper()
		var list appsv1.DeploymentList
		require.NoError(t, s.Client.List(t.Context(), &list, client.InNamespace(s.Namespace)))
		var agents appsv1.DaemonSetList
		require.NoError(t, s.Client.List(t.Context(), &agents, client.InNamespace(s.Namespace)))
		pods := make([]corev1.PodSpec, 0, len(list.Items)+len(agents.Items))
		for k := range list.Items {
			pods = append(pods, list.Items[k].Spec.Template.Spec)
		}
		for k := range agents.Items {
			pods = append(pods, agents.Items[k].Spec.Template.Spec)
		}
		for k := range pods {
			for _, c := range slices.Concat(pods[k].InitContainers, pods[k].Containers) {
				all = append(all, c.Image)
			}
		}
		return all
	}

	refuses("is not signed", installing("--plugins", good+","+bad)...)
	refuses("is not signed", installing("--node-agent-plugins", bad)...)
	refuses("is not signed", append(installing(), "--image", bad)...)
	refuses("is not signed", "takeover", "start", "--image", server, "--node-agent-plugins", bad, "--key", i.key)
	refuses("the images of a chart are those of its values", installing("--helm", t.TempDir())...)
	require.Empty(t, installed(), "nothing is changed")
	s.Must(installing("--plugins", good)...)
	all := installed()
	slices.Sort(all)
	require.Equal(t, []string{pinnedMover, pinnedServer, pinned}, slices.Compact(all), "%s is beside %s", mover, server)

	more, pinnedMore := i.push("team/more:v1", "more", true)
	other := newImages(t, s)
	before := installed()
	add := func(image string, more ...string) []string {
		return append([]string{"plugin", "add", image, "--confirm", "--key", i.key}, more...)
	}
	refuses("is not signed", add(bad)...)
	refuses("./more.tar is a local image", add("./more.tar")...)
	refuses("has no valid signature of", "plugin", "add", more, "--confirm", "--key", other.key)
	missing := filepath.Join(t.TempDir(), "key.pub")
	refuses("read the public key "+missing, "plugin", "add", more, "--confirm", "--key", missing)
	refuses("is there already, as init container team-good", add(good)...)
	i.push("team/good:v1", "changed", false)
	refuses("is not signed", add(good)...)
	require.Equal(t, before, installed(), "nothing is changed")
	s.Must("plugin", "add", more, "--confirm", "--key", other.key+","+i.key)
	require.Contains(t, installed(), pinnedMore)
	s.Must("plugin", "remove", more)
	require.Equal(t, before, installed())

	dir := filepath.Join(t.TempDir(), "plugins")
	require.NoError(t, os.Mkdir(dir, 0o755))
	refuses("is not signed", "plugin", "add", bad, "--plugin-dir", dir, "--key", i.key)
}
