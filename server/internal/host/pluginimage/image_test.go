package pluginimage

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"github.com/stretchr/testify/require"
)

// machine is the platform for which the tests resolve images, whatever they run on.
func machine() v1.Platform { return v1.Platform{OS: "linux", Architecture: "amd64"} }

// entry is a file of an image.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func executable(name, content string) entry { return entry{name: name, content: content, mode: 0o775} }

func symlink(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeSymlink} }

// imageOf returns an image for a platform with a layer for each list of files.
func imageOf(t *testing.T, platform v1.Platform, layers ...[]entry) v1.Image {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture})
	require.NoError(t, err)
	for _, files := range layers {
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
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data.Bytes())), nil
		})
		require.NoError(t, err)
		image, err = mutate.AppendLayers(image, layer)
		require.NoError(t, err)
	}
	return image
}

// serve starts a registry behind a handler and returns its address.
func serve(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewServer(
		wrap(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))),
	)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func plain(h http.Handler) http.Handler { return h }

func push(t *testing.T, text string, image v1.Image) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(text)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image))
	return ref
}

// take resolves and extracts an image.
func take(t *testing.T, ref string) (map[string]string, error) {
	t.Helper()
	image, err := Resolver{Platform: machine(), Silence: Silence(time.Minute)}.Resolve(t.Context(), ref)
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	files, err := image.Extract(dir)
	contents := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name))
		require.NoError(t, err)
		info, err := os.Stat(filepath.Join(dir, file.Name))
		require.NoError(t, err)
		require.Zero(t, info.Mode()&0o022, "only the owner can change it")
		contents[file.Name] = string(content)
	}
	return contents, err
}

func TestExtractTakesWhatAContainerWouldCopy(t *testing.T) {
	t.Parallel()
	want := map[string]string{"a": "A2", "lib/x.so": "so", "again": "A2", "hard": "so"}
	image := imageOf(t, machine(),
		[]entry{executable("plugins/a", "A1"), executable("plugins/gone", "G"), executable("bin/cp", "cp")},
		[]entry{executable("./plugins/a", "A2"), executable("plugins/.wh.gone", ""),
			{name: "plugins/lib/", kind: tar.TypeDir, mode: 0o777}, {name: "plugins/lib/x.so", content: "so", mode: 0o644},
			symlink("plugins/again", "../plugins/a"), {name: "plugins/hard", link: "plugins/lib/x.so", kind: tar.TypeLink},
			symlink("etc/x", "/plugins/a")})
	host := serve(t, plain)
	ref := push(t, host+"/team/mover:v1", image)
	digest, err := image.Digest()
	require.NoError(t, err)

	dir := t.TempDir()
	archive := filepath.Join(dir, "mover.tar")
	require.NoError(t, tarball.WriteToFile(archive, ref, image))
	written, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	require.NoError(t, err)
	require.NoError(t, written.AppendImage(image, layout.WithPlatform(machine())))
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imageOf(t, v1.Platform{OS: "linux", Architecture: "arm64"}),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: new(machine())}})
	indexRef, err := name.ParseReference(host + "/team/mover:all")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(indexRef, index))

	for _, ref := range []string{host + "/team/mover:v1", host + "/team/mover@" + digest.String(),
		host + "/team/mover:all", archive, filepath.Join(dir, "layout")} {
		got, err := take(t, ref)
		require.NoError(t, err, ref)
		require.Equal(t, want, got, ref)
	}
}

// TestExtractTakesProgramsOfImagesWithoutTheFolder takes from images what their entrypoints copy.
func TestExtractTakesProgramsOfImagesWithoutTheFolder(t *testing.T) {
	t.Parallel()
	const amd64 = 62
	program := elfFor(amd64)
	host := serve(t, plain)
	for name, tt := range map[string]struct {
		config v1.Config
		layers [][]entry
		want   map[string]string
		wrong  string
	}{
		"at the root, beside a system and what copies it": {
			config: v1.Config{Entrypoint: []string{"/copy", "/velero-plugin", "/target/velero-plugin"}},
			layers: [][]entry{
				{executable("velero-plugin", program), executable("copy", program), executable("usr/bin/sh", program),
					symlink("bin", "usr/bin"), executable(".dockerenv", ""), executable("start.sh", "#!/bin/sh\n"),
					{name: "notes", content: program, mode: 0o644}, executable("old", program)},
				{executable(".wh.old", "")},
			},
			want: map[string]string{"velero-plugin": program},
		},
		"that a script of the entrypoint names": {
			config: v1.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{`cp '/opt/io/mover' /target/.; exit`}},
			layers: [][]entry{{executable("opt/io/mover", "old")}, {executable("opt/io/mover", program), executable("opt/io/x",
				program), executable("bin/sh", program)}},
			want: map[string]string{"mover": program},
		},
		"below the working directory": {
			config: v1.Config{Entrypoint: []string{"cp", "mover", "/target"}, WorkingDir: "/srv"},
			layers: [][]entry{{executable("srv/mover", program)}},
			want:   map[string]string{"mover": program},
		},
		"whose folder a layer has removed": {
			config: v1.Config{Entrypoint: []string{"cp", "/opt/io/mover", "/target"}},
			layers: [][]entry{{executable("opt/io/mover", program)}, {executable("opt/.wh.io", "")}},
			wrong:  "no executable files below /plugins, at its root, or in the arguments of its entrypoint",
		},
		"for another machine": {
			layers: [][]entry{{executable("mover", elfFor(183))}},
			wrong:  "program for another architecture",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := imageOf(t, machine(), tt.layers...)
			config, err := image.ConfigFile()
			require.NoError(t, err)
			config.Config = tt.config
			image, err = mutate.ConfigFile(image, config)
			require.NoError(t, err)
			ref := fmt.Sprintf("%s/%s:v1", host, strings.NewReplacer(" ", "-", ",", "").Replace(name))
			push(t, ref, image)
			got, err := take(t, ref)
			if tt.wrong != "" {
				require.ErrorContains(t, err, tt.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// elfFor returns the header of a program.
func elfFor(machine uint16) string {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(header[16:], 2)
	binary.LittleEndian.PutUint16(header[18:], machine)
	binary.LittleEndian.PutUint32(header[20:], 1)
	binary.LittleEndian.PutUint16(header[52:], 64)
	return string(header)
}

func TestUnusableImagesAreRefused(t *testing.T) {
	t.Parallel()
	const amd64, arm64 = 62, 183
	arm := v1.Platform{OS: "linux", Architecture: "arm64"}
	host := serve(t, plain)
	for i, tt := range []struct {
		text     string
		platform v1.Platform
		files    []entry
	}{
		{"", machine(), []entry{executable("plugins/a", elfFor(amd64))}},
		{"it is for linux/arm64, this machine", arm, []entry{executable("plugins/a", "a")}},
		{"program for another architecture", machine(), []entry{executable("plugins/a", elfFor(arm64))}},
		{"no executable files below /plugins", machine(), []entry{{name: "plugins/readme", content: "x", mode: 0o644},
			executable("bin/a", "a")}},
		{"which is no file below /plugins", machine(),
			[]entry{executable("plugins/a", "a"), symlink("plugins/passwd", "/etc/passwd"), executable("etc/passwd", "root")}},
		{"which is no file below /plugins", machine(),
			[]entry{executable("plugins/a", "a"), symlink("plugins/passwd", "../../plugins-x")}},
		{"which is no file below /plugins", machine(), []entry{executable("plugins/a", "a"), symlink("plugins/x", "y"),
			symlink("plugins/y", "x")}},
		{"its /plugins is not a directory", machine(), []entry{symlink("plugins", "/opt")}},
		{"its /plugins/pipe is neither a file", machine(), []entry{{name: "plugins/pipe", kind: tar.TypeFifo}}},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			ref := fmt.Sprintf("%s/x:v%d", host, i)
			push(t, ref, imageOf(t, tt.platform, tt.files))
			_, err := take(t, ref)
			if tt.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "take the plugin files out of image "+ref)
			require.ErrorContains(t, err, tt.text)
		})
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imageOf(t, arm), Descriptor: v1.Descriptor{Platform: &arm}})
	ref, err := name.ParseReference(host + "/x:index")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, index))
	_, err = take(t, ref.String())
	require.ErrorContains(t, err, "not for this machine's platform linux/amd64: it has linux/arm64")
	_, err = take(t, host+"/none:v1")
	require.ErrorContains(t, err, "NAME_UNKNOWN")
	_, err = take(t, "UPPER/x:y:z")
	require.ErrorContains(t, err, "want REGISTRY/NAME:TAG")
	_, err = take(t, "./none")
	require.ErrorContains(t, err, "no such file")
}

func TestImageThatChangesMeanwhileIsRefused(t *testing.T) {
	t.Parallel()
	var digest atomic.Pointer[v1.Hash]
	host := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d := digest.Load(); d != nil && strings.HasSuffix(r.URL.Path, "/manifests/"+d.String()) {
				r.URL.Path = strings.Replace(r.URL.Path, d.String(), "v2", 1) // it gives another image under this digest
			}
			next.ServeHTTP(w, r)
		})
	})
	first := imageOf(t, machine(), []entry{executable("plugins/a", "A")})
	push(t, host+"/x:v1", first)
	push(t, host+"/x:v2", imageOf(t, machine(), []entry{executable("plugins/a", "evil")}))
	d, err := first.Digest()
	require.NoError(t, err)
	digest.Store(&d)
	_, err = take(t, host+"/x:v1")
	require.ErrorContains(t, err, "somebody may be replacing it; try again")
}

func TestSilentRegistryIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, silent := range []string{"/v2/", "/manifests/", "/blobs/"} {
		t.Run(silent, func(t *testing.T) {
			t.Parallel()
			var hang atomic.Bool
			end := make(chan struct{})
			host := serve(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if hang.Load() && strings.Contains(r.URL.Path, silent) {
						if silent == "/blobs/" { // in the middle of an answer
							_, _ = io.WriteString(w, "x")
							_ = http.NewResponseController(w).Flush()
						}
						<-end
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			t.Cleanup(func() { close(end) })
			push(t, host+"/x:v1", imageOf(t, machine(), []entry{executable("plugins/a", "A")}))
			hang.Store(true)
			image, err := Resolver{Platform: machine(), Silence: Silence(time.Second)}.Resolve(t.Context(), host+"/x:v1")
			if err == nil {
				_, err = image.Extract(t.TempDir())
			}
			require.ErrorContains(t, err, host+" has sent nothing for 1s, see --registry-timeout")
		})
	}
}

// signer returns a signer and the path of its public key.
func signer(t *testing.T) (signature.Signer, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	s, err := signature.LoadECDSASigner(key, crypto.SHA256)
	require.NoError(t, err)
	pem, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cosign.pub")
	require.NoError(t, os.WriteFile(path, pem, 0o600))
	return s, path
}

// signBeside signs an image as cosign does in a tag beside it. about is what the signature is about.
func signBeside(t *testing.T, s signature.Signer, repository name.Repository, image, about v1.Hash) {
	t.Helper()
	content, err := payload.Cosign{Image: repository.Digest(about.String())}.MarshalJSON()
	require.NoError(t, err)
	signed, err := s.SignMessage(bytes.NewReader(content))
	require.NoError(t, err)
	signatures, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:       static.NewLayer(content, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signed)},
	})
	require.NoError(t, err)
	require.NoError(t, remote.Write(repository.Tag("sha256-"+image.Hex+".sig"), signatures))
}

// signBundle signs a statement about an image as cosign does in a bundle that refers to it.
func signBundle(t *testing.T, s signature.Signer, ref name.Reference, predicate string) {
	t.Helper()
	subject, err := remote.Head(ref)
	require.NoError(t, err)
	statement, err := json.Marshal(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": map[string]any{},
		"subject": []any{map[string]any{"digest": map[string]string{"sha256": subject.Digest.Hex}}},
	})
	require.NoError(t, err)
	envelope, err := dsse.WrapSigner(s, "application/vnd.in-toto+json").SignMessage(bytes.NewReader(statement))
	require.NoError(t, err)
	bundle, err := json.Marshal(map[string]any{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
		"dsseEnvelope": json.RawMessage(envelope)})
	require.NoError(t, err)
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		"application/vnd.dev.sigstore.bundle.v0.3+json"),
		static.NewLayer(bundle, "application/vnd.dev.sigstore.bundle.v0.3+json"))
	require.NoError(t, err)
	referring, ok := mutate.Subject(image, *subject).(v1.Image)
	require.True(t, ok)
	digest, err := referring.Digest()
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref.Context().Digest(digest.String()), referring))
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	host := serve(t, plain)
	holder, key := signer(t)
	stranger, otherKey := signer(t)
	other := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	for i, tt := range []struct {
		name string
		sign func(t *testing.T, ref name.Reference, digest v1.Hash)
		err  string // empty if the signature of the holder is valid
	}{
		{"none", func(*testing.T, name.Reference, v1.Hash) {}, "is not signed"},
		{"beside", func(t *testing.T, ref name.Reference, d v1.Hash) {
			t.Helper()
			signBeside(t, holder, ref.Context(), d, d)
		}, ""},
		{"by a release", func(t *testing.T, ref name.Reference, d v1.Hash) {
			t.Helper()
			require.NoError(t, Sign(ref.Context().Digest(d.String()), holder))
		}, ""},
		{"of another image", func(t *testing.T, ref name.Reference, d v1.Hash) {
			t.Helper()
			signBeside(t, holder, ref.Context(), d, other)
		}, "the signature is about sha256:000"},
		{"of a stranger", func(t *testing.T, ref name.Reference, d v1.Hash) {
			t.Helper()
			signBeside(t, stranger, ref.Context(), d, d)
		}, "has no valid signature of " + key},
		{"bundle", func(t *testing.T, ref name.Reference, _ v1.Hash) {
			t.Helper()
			signBundle(t, holder, ref, signPredicate)
		}, ""},
		{"bundle of a stranger", func(t *testing.T, ref name.Reference, _ v1.Hash) {
			t.Helper()
			signBundle(t, stranger, ref, signPredicate)
		}, "has no valid signature of " + key},
		{"attestation", func(t *testing.T, ref name.Reference, _ v1.Hash) {
			t.Helper()
			signBundle(t, holder, ref, "https://cyclonedx.org/bom")
		}, "is not a signature but attests https://cyclonedx.org/bom"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			made := imageOf(t, machine(), []entry{executable("plugins/a", tt.name)})
			ref := push(t, fmt.Sprintf("%s/x%d:v1", host, i), made)
			digest, err := made.Digest()
			require.NoError(t, err)
			tt.sign(t, ref, digest)
			image, err := Resolver{Platform: machine(), Silence: Silence(time.Minute)}.Resolve(t.Context(), ref.String())
			require.NoError(t, err)
			// Of a cluster, whose nodes may have another platform.
			cluster := Resolver{Silence: Silence(time.Minute)}
			pinned, errPinned := cluster.Verified(t.Context(), ref.String(), []string{key})
			if tt.err == "" {
				require.NoError(t, image.Verify(key))
				require.NoError(t, image.Verify(otherKey, key))
				require.Error(t, image.Verify(otherKey))
				require.NoError(t, errPinned)
				require.Equal(t, ref.String()+"@"+digest.String(), pinned)
				again, err := cluster.Verified(t.Context(), pinned, []string{key})
				require.NoError(t, err)
				require.Equal(t, pinned, again)
				return
			}
			require.ErrorContains(t, image.Verify(key), tt.err)
			require.ErrorContains(t, errPinned, tt.err)
			require.Empty(t, pinned)
		})
	}
	require.ErrorContains(t, (&Image{Ref: "./x"}).Verify(key), "./x is a local image, which has no signatures")
	_, err := Resolver{}.Verified(t.Context(), "./x", []string{key})
	require.ErrorContains(t, err, "./x is a local image, which has no signatures")
}

func TestStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Store {
		s, err := OpenStore(dir)
		require.NoError(t, err)
		return s
	}
	stage := func(s *Store, files ...string) (string, Installed) {
		at, err := s.Stage()
		require.NoError(t, err)
		image := Installed{Image: "x:v1", Digest: "sha256:1"}
		for _, file := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(at, file)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(at, file), nil, 0o755))
			image.Files = append(image.Files,
				File{Name: file, SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"})
		}
		return at, image
	}
	s := open()
	at, image := stage(s, "a", "lib/b")
	require.NoError(t, s.CheckNew(image))
	require.NoError(t, s.Add(image, at))
	require.FileExists(t, filepath.Join(dir, "lib", "b"))
	require.NoError(t, s.Close())

	s = open()
	require.ErrorContains(t, s.CheckNew(image), "image x:v1 is there already (sha256:1)")
	clash := Installed{Image: "y:v1", Files: image.Files[:1]}
	require.ErrorContains(t, s.CheckNew(clash), "file a is of image x:v1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own"), []byte("x"), 0o755))
	require.ErrorContains(t, s.CheckNew(Installed{Image: "z", Files: []File{{Name: "own"}}}), "there is another file "+
		filepath.Join(dir, "own"))

	require.NoError(t, os.Remove(filepath.Join(dir, "a"))) // as after a crash between the files
	at, image = stage(s, "a", "lib/b")
	require.NoError(t, s.CheckNew(image))
	require.NoError(t, s.Add(image, at))
	require.Len(t, s.Images, 1)

	_, err := s.Remove("other")
	require.ErrorContains(t, err, `there are ["x:v1"]`)
	for range 2 {
		removed, err := s.Remove("lib/b")
		require.NoError(t, err)
		require.Equal(t, image, removed)
		require.NoFileExists(t, filepath.Join(dir, "a"))
		s.Images = slices.Insert(s.Images, 0, removed) // as after a crash before the record was written
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".images.json"),
		[]byte(`[{"image":"x","files":[{"path":"../x"}]}]`), 0o600))
	_, err = OpenStore(dir)
	require.ErrorContains(t, err, `file "../x" of image x is not below the directory`)
}
