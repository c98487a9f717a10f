package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// mustMake runs a target of the Makefile, for some products and one platform, and returns the directory in which it has
// written.
func mustMake(t *testing.T, target, products string, variables ...string) string {
	t.Helper()
	programs.Depend(t, "./server/cmd/cleat-release", "./server/cmd/cleat", "./plugins/...", "./examples/...")
	_, err := programs.BuildModule("plugins/kopia/cmd/cleat-kopia") // of which the results depend, too
	require.NoError(t, err)
	bin := t.TempDir()
	require.FileExists(t, "../../../../Makefile") // another one needs another run
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", "../../../..", target, "VERSION=v1.2.3",
		"PLATFORMS=linux/" + runtime.GOARCH, "PRODUCTS=" + products, "BIN=" + bin}, variables...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(bin, target)
}

// read returns the files of an archive.
func read(t *testing.T, r io.Reader) (contents map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	contents, headers = map[string][]byte{}, map[string]*tar.Header{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return contents, headers
		}
		require.NoError(t, err)
		headers[header.Name] = header
		contents[header.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
	}
}

// product is an OCI layout with the image of a product for this platform, and its SBOM.
type product struct {
	dir   string
	image v1.Image
	sbom  []byte
}

// open opens the layout of a product.
func open(t *testing.T, images, name string) product {
	t.Helper()
	p := product{dir: filepath.Join(images, name)}
	root, err := layout.ImageIndexFromPath(p.dir)
	require.NoError(t, err)
	manifest, err := root.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	require.Equal(t, "v1.2.3", manifest.Manifests[1].Annotations["org.opencontainers.image.ref.name"])
	index, err := root.ImageIndex(manifest.Manifests[1].Digest)
	require.NoError(t, err)
	list, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, list.Manifests, 1)
	require.Equal(t, v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, *list.Manifests[0].Platform)
	p.image, err = index.Image(list.Manifests[0].Digest)
	require.NoError(t, err)

	sbom, err := root.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	artifact, err := sbom.Manifest()
	require.NoError(t, err)
	require.Equal(t, list.Manifests[0].Digest, artifact.Subject.Digest, "the SBOM refers to the image")
	layers, err := sbom.Layers()
	require.NoError(t, err)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer content.Close()
	p.sbom, err = io.ReadAll(content)
	require.NoError(t, err)
	return p
}

// config returns the configuration of the image, whose user is not root.
func (p product) config(t *testing.T) v1.Config {
	t.Helper()
	config, err := p.image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "65532:65532", config.Config.User)
	return config.Config
}

func (p product) files(t *testing.T) (contents map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	flat := mutate.Extract(p.image)
	defer flat.Close()
	return read(t, flat)
}

func TestImagesAreReproducible(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the server")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skipf("the image has packages of Debian, and there is no apt-get here: %v", err)
	}
	first, second := mustMake(t, "image", "cleat"), mustMake(t, "image", "cleat")
	index := func(dir string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, "cleat", "index.json"))
		require.NoError(t, err)
		return content
	}
	require.Equal(t, string(index(first)), string(index(second)), "the digests are the same")

	p := open(t, first, "cleat")
	require.Equal(t, []string{"/cleat"}, p.config(t).Entrypoint)
	contents, headers := p.files(t)
	for name, header := range headers { // no shell, and no other program
		if header.Typeflag == tar.TypeReg && header.Mode&0o111 != 0 && !strings.Contains(name, ".so") {
			require.Equal(t, "cleat", name)
		}
	}
	require.Equal(t, "cleat", headers["velero"].Linkname)
	require.EqualValues(t, 0o1777, headers["tmp"].Mode)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(contents["etc/ssl/certs/ca-certificates.crt"]))
	if runtime.GOOS == "linux" {
		program := filepath.Join(t.TempDir(), "cleat")
		require.NoError(t, os.WriteFile(program, contents["cleat"], 0o755))
		out, err := exec.CommandContext(t.Context(), program, "version", "--client-only").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "Client: v1.2.3\n", string(out))
	}
	checkSBOM(t, p.sbom, contents["licenses/cleat"], "github.com/cleat-dev/cleat", "k8s.io/client-go")
	require.Contains(t, string(p.sbom), "pkg:deb/debian/libssl3t64@")
	isPublished(t, filepath.Join(first, "cleat"), p.image)
}

// isPublished loads and pushes an image as the README does.
func isPublished(t *testing.T, dir string, image v1.Image) {
	t.Helper()
	digest := func(image v1.Image) string {
		name, err := image.ConfigName()
		require.NoError(t, err)
		return name.String()
	}
	tag, err := name.NewTag("ghcr.io/cleat-dev/cleat:v1.2.3")
	require.NoError(t, err)
	loaded, err := tarball.ImageFromPath(dir+".tar", &tag)
	require.NoError(t, err)
	require.Equal(t, digest(image), digest(loaded))

	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "",
		0))))
	t.Cleanup(server.Close)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	holder, err := signature.LoadECDSASigner(private, crypto.SHA256)
	require.NoError(t, err)
	public, err := cryptoutils.MarshalPublicKeyToPEM(private.Public())
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "release.pub")
	require.NoError(t, os.WriteFile(key, public, 0o600))
	pushed, err := Push(t.Context(), dir, strings.TrimPrefix(server.URL, "http://")+"/team", "cleat", holder)
	require.NoError(t, err)
	require.Regexp(t, `/team/cleat:v1\.2\.3$`, pushed)
	_, err = pluginimage.Resolver{Silence: pluginimage.Silence(time.Minute)}.Verified(t.Context(), pushed, []string{key})
	require.NoError(t, err)
	ref, err := name.ParseReference(pushed)
	require.NoError(t, err)
	pulled, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	require.NoError(t, err)
	require.Equal(t, digest(image), digest(pulled))
	sum, err := pulled.Digest()
	require.NoError(t, err)
	referrers, err := remote.Referrers(ref.Context().Digest(sum.String()))
	require.NoError(t, err)
	list, err := referrers.IndexManifest()
	require.NoError(t, err)
	require.Len(t, list.Manifests, 1, "the SBOM refers to the image")
}

// TestPluginImages runs what the init containers of plugin images run, and adds the plugins to a server that does not
// run in a cluster.
func TestPluginImages(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds programs and runs them on Linux")
	}
	products := map[string][]string{"first-plugin": {"first-plugin"}, "cleat-kopia": {"cleat-kopia"}}
	if os.Getenv("CLEAT_TEST_RESTIC_IMAGE") != "" {
		products["cleat-restic"] = []string{".cleat-restic/restic", "cleat-restic"}
	}
	images := mustMake(t, "image", strings.Join(slices.Collect(maps.Keys(products)), ","))
	cleat := programs.Build(t, "server/cmd/cleat")
	for name, want := range products {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, images, name)
			root, target := p.unpack(t), t.TempDir()
			entrypoint := p.config(t).Entrypoint
			require.Equal(t, []string{"/copy-plugins", "/plugins", "/target"}, entrypoint)
			copier := func(target string) ([]byte, error) {
				return exec.CommandContext(t.Context(), filepath.Join(root, entrypoint[0]), filepath.Join(root, entrypoint[1]),
					target).CombinedOutput()
			}
			for range 2 { // the second time, as after a crash of the node
				out, err := copier(target)
				require.NoError(t, err, "%s", out)
			}
			require.Equal(t, want, below(t, target))
			for _, file := range want {
				there, err := os.ReadFile(filepath.Join(target, file))
				require.NoError(t, err)
				image, err := os.ReadFile(filepath.Join(root, "plugins", file))
				require.NoError(t, err)
				require.True(t, bytes.Equal(image, there), file)
			}
			out, err := copier(filepath.Join(target, "none"))
			require.Error(t, err)
			require.Contains(t, string(out), "mount the plugin directory of the server at")

			added := filepath.Join(t.TempDir(), "plugins")
			listed, err := exec.CommandContext(t.Context(), cleat, "plugin", "add", p.dir, "--plugin-dir",
				added).CombinedOutput()
			require.NoError(t, err, "%s", listed)
			for _, dir := range []string{target, added} {
				info, err := exec.CommandContext(t.Context(), cleat, "plugin", "info", filepath.Join(dir, name)).CombinedOutput()
				require.NoError(t, err, "%s", info)
			}
			for _, file := range want {
				require.FileExists(t, filepath.Join(added, file))
			}
		})
	}
	t.Run("licenses of kopia", func(t *testing.T) {
		t.Parallel()
		p := open(t, images, "cleat-kopia")
		contents, _ := p.files(t)
		licenses := contents["licenses/cleat-kopia"]
		checkSBOM(t, p.sbom, slices.Concat(licenses, contents["licenses/copy-plugins"]),
			"github.com/cleat-dev/cleat/plugins/kopia", "github.com/project-velero/kopia")
		for _, part := range []string{"=== github.com/zeebo/blake3 v", "CC0 1.0 Universal",
			"=== the standard library of Go: LICENSE", "=== github.com/cleat-dev/cleat v1.2.3: LICENSE"} {
			require.True(t, bytes.Contains(licenses, []byte(part)), part)
		}
	})
	t.Run("restic comes along", func(t *testing.T) {
		t.Parallel()
		if products["cleat-restic"] == nil {
			t.Skip("restic is built from its source, which takes minutes: run make image-test")
		}
		p := open(t, images, "cleat-restic")
		root := p.unpack(t)
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, "plugins/.cleat-restic/restic"),
			"version").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Regexp(t, `^restic 0\.18\.\d+ `, string(out))
		licenses, err := os.ReadFile(filepath.Join(root, "licenses/restic"))
		require.NoError(t, err)
		require.True(t, bytes.Contains(licenses, []byte("=== github.com/restic/restic v0.18.1: LICENSE")))
	})
}

// unpack writes the files of the image into a directory, and returns that.
func (p product) unpack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	contents, headers := p.files(t)
	for name, content := range contents {
		if headers[name].Typeflag == tar.TypeReg {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			programs.Write(t, path, content)
		}
	}
	return dir
}

// below returns the files below a directory, sorted.
func below(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return names
}

// checkSBOM checks the list of the modules of a product, and that there is a license of each.
func checkSBOM(t *testing.T, sbom, licenses []byte, product, module string) {
	t.Helper()
	var bom struct {
		BomFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	require.NoError(t, json.Unmarshal(sbom, &bom))
	require.Equal(t, "CycloneDX", bom.BomFormat)
	require.Equal(t, product, bom.Metadata.Component.Name)
	require.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	found := map[string]string{}
	for _, c := range bom.Components {
		found[c.Name] = c.PURL
		if c.Name != "stdlib" && !strings.HasPrefix(c.PURL, "pkg:deb/") { // Debian's are in usr/share/doc
			require.True(t, bytes.Contains(licenses, []byte("=== "+c.Name+" "+c.Version+": ")), "%s %s", c.Name, c.Version)
		}
	}
	require.Regexp(t, "^pkg:golang/"+module+"@v0", found[module])
	require.Equal(t, "pkg:golang/stdlib@"+strings.TrimPrefix(runtime.Version(), "go"), found["stdlib"])
}

func TestReleaseHasArchivesAndSums(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the server")
	}
	keys := t.TempDir()
	key := filepath.Join(keys, "release.pem")
	out, err := exec.CommandContext(t.Context(), "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out",
		key).CombinedOutput()
	if err != nil {
		t.Skipf("there is no openssl here: %v %s", err, out)
	}
	public, err := exec.CommandContext(t.Context(), "openssl", "ec", "-in", key, "-pubout").Output()
	require.NoError(t, err)
	dir := mustMake(t, "release", "cleat", "KEY="+key)
	name := "cleat-v1.2.3-linux-" + runtime.GOARCH
	archive, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
	require.NoError(t, err)
	sbom, err := os.ReadFile(filepath.Join(dir, name+".cdx.json"))
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%x  %s.cdx.json\n%x  %s.tar.gz\n", sha256.Sum256(sbom), name, sha256.Sum256(archive),
		name), string(sums))
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	contents, headers := read(t, unzipped)
	require.Len(t, contents, 4)
	checkSBOM(t, sbom, contents["licenses/cleat"], "github.com/cleat-dev/cleat", "k8s.io/client-go")
	require.EqualValues(t, 0o755, headers["cleat"].Mode)
	require.NotEmpty(t, contents["LICENSE"])

	// The commands of the page, with the cleat of the release, where the user has the public key.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "release.pub"), public, 0o600))
	programs.Write(t, filepath.Join(keys, "cleat"), contents["cleat"])
	page, err := os.ReadFile("../../../docs/install.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n### Verify a release\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n#")
	verify := func() (ran int, all string, problem error) {
		for line := range strings.Lines(section) {
			command, ok := strings.CutPrefix(line, "    ")
			if !ok || strings.HasPrefix(command, "cosign ") { // which is not a part of the tree
				continue
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+keys+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				return ran, all, fmt.Errorf("%s: %w: %s", command, err, out)
			}
			ran++
			all += string(out)
		}
		return ran, all, nil
	}
	ran, all, err := verify()
	require.NoError(t, err)
	require.Equal(t, 3, ran)
	require.Contains(t, all, "Verified OK")
	require.Contains(t, all, "signed with key sha256:")
	require.Equal(t, 2, strings.Count(all, name+".tar.gz: OK"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "checksums.txt"), append(sums, '\n'), 0o600))
	_, _, err = verify()
	require.Error(t, err)
}
