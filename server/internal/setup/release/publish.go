package release

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
)

// WriteTarball writes the image of a product for the architecture of this machine as "docker load" and "kind load
// image-archive" read it, with its name in a repository. It writes nothing if it was not built for that architecture.
func WriteTarball(path, repository string, builds []Built) (written bool, err error) {
	for _, b := range builds {
		if b.Platform.OS != "linux" || b.Platform.Architecture != runtime.GOARCH {
			continue
		}
		tag, err := name.NewTag(repository + "/" + b.Name + ":" + b.Version)
		if err != nil {
			return false, fmt.Errorf("name the image of %s: %w", b.Name, err)
		}
		image, err := b.Image()
		if err != nil {
			return false, fmt.Errorf("make the image of %s for %s: %w", b.Name, b.Platform, err)
		}
		return true, tarball.WriteToFile(path, tag, image)
	}
	return false, nil
}

// Push pushes what WriteLayout has written to a repository: the index of images with the version as its tag, and their
// SBOMs. With a signer, it signs the index. Credentials are those of Docker's configuration. It returns the name of the
// image.
func Push(ctx context.Context, dir, repository, product string, signer signature.Signer) (string, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", fmt.Errorf("read the OCI layout %s, which make image writes: %w", dir, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	var pushed name.Reference
	for i := range manifest.Manifests {
		entry := &manifest.Manifests[i]
		if !entry.MediaType.IsIndex() {
			continue // an SBOM, which refers to an image
		}
		images, err := index.ImageIndex(entry.Digest)
		if err != nil {
			return "", err
		}
		if pushed, err = name.ParseReference(repository + "/" + product + ":" + entry.Annotations[refName]); err != nil {
			return "", err
		}
		if err := remote.WriteIndex(pushed, images, options...); err != nil {
			return "", fmt.Errorf("push %s: %w", pushed, err)
		}
		if signer != nil {
			if err := pluginimage.Sign(pushed.Context().Digest(entry.Digest.String()), signer, options...); err != nil {
				return "", err
			}
		}
	}
	if pushed == nil {
		return "", errors.New("the OCI layout " + dir + " has no index of images")
	}
	for i := range manifest.Manifests {
		if entry := &manifest.Manifests[i]; !entry.MediaType.IsIndex() {
			sbom, err := index.Image(entry.Digest)
			if err == nil {
				err = remote.Write(pushed.Context().Digest(entry.Digest.String()), sbom, options...)
			}
			if err != nil {
				return "", fmt.Errorf("push the SBOM of %s: %w", pushed, err)
			}
		}
	}
	return pushed.String(), nil
}
