package release

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	nobody   = "65532:65532" // a user that is not root and has no name
	sbomType = "application/vnd.cyclonedx+json"
	refName  = "org.opencontainers.image.ref.name"
)

// epoch is the time of everything that has one.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// Image returns the image of a product: its programs, and for the server, below them, the libraries that plugins need.
// It runs as a user that is not root.
func (b Built) Image() (v1.Image, error) {
	content, config := b.plugins, v1.Config{Entrypoint: []string{"/" + copierName, "/plugins", "/target"}}
	if b.server {
		content = b.serverFiles
		config = v1.Config{
			Entrypoint: []string{"/cleat"}, Cmd: []string{"server"}, Env: []string{"PATH=/", "SSL_CERT_FILE=/" +
				authoritiesFile},
		}
	}
	files := contents{}
	headers, err := content(files)
	if err != nil {
		return nil, err
	}
	var layers []mutate.Addendum
	add := func(headers []tar.Header, files contents) error {
		layer, err := layerOf(headers, files)
		layers = append(layers,
			mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "cleat-release"}})
		return err
	}
	if len(b.base.headers) > 0 { // a layer of its own: it is that of other versions, too
		if err := add(b.base.headers, b.base.files); err != nil {
			return nil, err
		}
	}
	if err := add(headers, files); err != nil {
		return nil, err
	}
	config.User, config.WorkingDir = nobody, "/"
	config.Labels = map[string]string{
		"org.opencontainers.image.title": b.Name, "org.opencontainers.image.version": b.Version,
		"org.opencontainers.image.source":   "https://github.com/cleat-dev/cleat",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: b.Platform.OS, Architecture: b.Platform.Architecture, Variant: b.Platform.Variant,
		Created: v1.Time{Time: epoch()}, Config: config,
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, layers...)
}

const authoritiesFile = "etc/ssl/certs/ca-certificates.crt"

// contents are the contents of files by their names.
type contents map[string][]byte

// serverFiles adds the files of the server's image that are not Debian's: a directory for temporary files, and the
// program. It is /cleat, and /velero too, so that a Deployment of Velero runs it, and /velero-restore-helper, for
// the pods that a restore lets wait.
func (b Built) serverFiles(files contents) ([]tar.Header, error) {
	const open = 0o1777 // as /tmp everywhere
	headers := []tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: open},
		{Name: "velero", Typeflag: tar.TypeSymlink, Linkname: "cleat", Mode: 0o777},
		{Name: "velero-restore-helper", Typeflag: tar.TypeSymlink, Linkname: "cleat", Mode: 0o777},
	}
	return b.programFiles(files, headers, "", b.Programs)
}

// plugins adds the files of a plugin's image: the plugin below /plugins, with the programs that it starts, and the
// program that copies them.
func (b Built) plugins(files contents) ([]tar.Header, error) {
	headers, err := b.programFiles(files, []tar.Header{{Name: "plugins/", Typeflag: tar.TypeDir, Mode: 0o755}}, "plugins/",
		b.Programs)
	if err != nil {
		return nil, err
	}
	return b.programFiles(files, headers, "", []Program{b.copier})
}

func (b Built) programFiles(
	files contents, headers []tar.Header, below string, programs []Program,
) ([]tar.Header, error) {
	for _, program := range programs {
		content, err := os.ReadFile(program.Path)
		if err != nil {
			return nil, err
		}
		name := below + program.Name
		if dir := path.Dir(program.Name); dir != "." {
			headers = append(headers, tar.Header{Name: below + dir + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		headers, files[name] = append(headers, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}), content
		if program.Licenses != nil {
			name := "licenses/" + path.Base(program.Name)
			headers, files[name] = append(headers, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}),
				program.Licenses
		}
	}
	return headers, nil
}

// layerOf returns a layer with files whose headers do not depend on the machine.
func layerOf(headers []tar.Header, files contents) (v1.Layer, error) {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, header := range headers {
		header.Size, header.ModTime = int64(len(files[header.Name])), epoch()
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[header.Name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// WriteLayout writes an OCI layout with an index of the images of a product for several platforms, and their SBOMs,
// which refer to them. It returns the digest of the index. The directory must not exist.
func WriteLayout(dir string, builds []Built) (v1.Hash, error) {
	if _, err := os.Stat(dir); err == nil {
		return v1.Hash{}, fmt.Errorf("write the OCI layout: %s exists; remove it first", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return v1.Hash{}, fmt.Errorf("write the OCI layout: %w", err)
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write the OCI layout: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range builds {
		image, err := b.Image()
		if err != nil {
			return v1.Hash{}, fmt.Errorf("make the image of %s for %s: %w", b.Name, b.Platform, err)
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &b.Platform}})
		sbom, err := b.sbomOf(image)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("make the SBOM of the image of %s for %s: %w", b.Name, b.Platform, err)
		}
		if err := written.AppendImage(sbom); err != nil {
			return v1.Hash{}, fmt.Errorf("write the OCI layout: %w", err)
		}
	}
	if err := written.AppendIndex(index,
		layout.WithAnnotations(map[string]string{refName: builds[0].Version})); err != nil {
		return v1.Hash{}, fmt.Errorf("write the OCI layout: %w", err)
	}
	return index.Digest()
}

// sbomOf returns the artifact with the SBOM of a product, which refers to its image.
func (b Built) sbomOf(image v1.Image) (v1.Image, error) {
	content, err := b.SBOM()
	if err != nil {
		return nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	artifact, err = mutate.AppendLayers(artifact, static.NewLayer(content, sbomType))
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	size, err := image.Size()
	if err != nil {
		return nil, err
	}
	referring, ok := mutate.Subject(artifact, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest,
		Size: size}).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("an artifact became %T", referring)
	}
	return referring, nil
}
