package pluginimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is an image for one platform. Its content is read, and compared with its digests, when it is extracted.
type Image struct {
	Ref      string // as the user has named it
	Digest   v1.Hash
	ByTag    bool // of a registry, which resolves the tag
	platform v1.Platform
	image    v1.Image

	repository *name.Repository // of a registry; nil for a local image
	options    []remote.Option
}

// Resolver finds images.
type Resolver struct {
	Platform  v1.Platform
	Silence   Silence // for how long a registry may send nothing
	PlainHTTP bool    // allows a registry to be asked without TLS; one on this machine may be anyway
}

// Resolve finds an image: a directory is an OCI layout, a file a tarball as "docker save" writes it, and anything else
// names an image of a registry, whose credentials are those of Docker's configuration. A tag is resolved once; later
// requests use its digest.
func (r Resolver) Resolve(ctx context.Context, ref string) (*Image, error) {
	if local(ref) {
		info, err := os.Stat(ref)
		if err != nil {
			return nil, fmt.Errorf("find the image: %w", err)
		}
		if info.IsDir() {
			return r.layout(ref)
		}
		return r.tarball(ref)
	}
	image, err := r.remote(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("resolve image %s: %w", ref, err)
	}
	return image, nil
}

// local reports whether ref is a path: it begins like one, or is the name of an archive.
func local(ref string) bool {
	return strings.HasPrefix(ref, ".") || filepath.IsAbs(ref) || strings.HasSuffix(ref, ".tar")
}

// Verified returns the reference by digest of an image of a registry that the holder of one of the private keys has
// signed, for what pulls the image later. keys are the paths of the public keys.
func (r Resolver) Verified(ctx context.Context, ref string, keys []string) (string, error) {
	if local(ref) {
		return "", fmt.Errorf("%s is a local image, which has no signatures: push it to a registry and name that", ref)
	}
	image, _, err := r.find(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("resolve image %s: %w", ref, err)
	}
	if err := image.Verify(keys...); err != nil {
		return "", err
	}
	if !image.ByTag {
		return ref, nil
	}
	return ref + "@" + image.Digest.String(), nil
}

// find returns an image of a registry without its content.
func (r Resolver) find(ctx context.Context, text string) (*Image, *remote.Descriptor, error) {
	var parse []name.Option
	if r.PlainHTTP {
		parse = append(parse, name.Insecure)
	}
	ref, err := name.ParseReference(text, parse...)
	if err != nil {
		return nil, nil, fmt.Errorf("want REGISTRY/NAME:TAG or @sha256:..., or a path that begins with ./ or /: %w", err)
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(r.transport()),
		remote.WithPlatform(r.Platform),
	}
	head, err := remote.Get(ref, options...)
	if err != nil {
		return nil, nil, err
	}
	_, byDigest := ref.(name.Digest)
	return &Image{Ref: text, Digest: head.Digest, ByTag: !byDigest, platform: r.Platform, repository: new(ref.Context()),
		options: options}, head, nil
}

func (r Resolver) remote(ctx context.Context, text string) (*Image, error) {
	image, head, err := r.find(ctx, text)
	if err != nil {
		return nil, err
	}
	if head.MediaType.IsIndex() {
		index, err := head.ImageIndex()
		if err != nil {
			return nil, err
		}
		image.image, err = r.choose(index, mostNested)
		return image, err
	}
	// The image is read by its digest from here on, even if the tag changes.
	image.image, err = remote.Image(image.repository.Digest(head.Digest.String()), image.options...)
	if err != nil {
		return nil, fmt.Errorf("the registry does not give what its tag stood for a moment ago, %s, so somebody may be "+
			"replacing it; try again: %w", head.Digest, err)
	}
	return image, nil
}

func (r Resolver) layout(path string) (*Image, error) {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("read %s as an OCI layout: %w", path, err)
	}
	image := &Image{Ref: path, platform: r.Platform}
	if image.image, err = r.choose(index, mostNested); err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", path, err)
	}
	image.Digest, err = image.image.Digest()
	return image, err
}

func (r Resolver) tarball(path string) (*Image, error) {
	found, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, fmt.Errorf(`read %s as a tarball of one image, as "docker save" writes it: %w`, path, err)
	}
	image := &Image{Ref: path, platform: r.Platform, image: found}
	image.Digest, err = found.Digest()
	return image, err
}

// These limits hold for indexes of images, which a registry can choose freely.
const (
	mostNested    = 2    // indexes in an index, in one another
	mostPlatforms = 1000 // entries of an index
	mostInner     = 10   // indexes among them
)

// choose returns the image of an index that is for the platform. An index may hold an index for it, in so many levels.
func (r Resolver) choose(index v1.ImageIndex, levels int) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	inner := 0
	for i := range manifest.Manifests {
		if manifest.Manifests[i].MediaType.IsIndex() {
			inner++
		}
	}
	if len(manifest.Manifests) > mostPlatforms || inner > mostInner || inner > 0 && levels == 0 {
		return nil, fmt.Errorf("the index has more than %d entries, %d indexes, or %d levels of indexes; name the image "+
			"for %s by its digest",
			mostPlatforms, mostInner, mostNested, r.Platform)
	}
	var others []string
	for i := range manifest.Manifests {
		entry := &manifest.Manifests[i]
		switch {
		case entry.MediaType.IsIndex():
			inner, err := index.ImageIndex(entry.Digest)
			if err != nil {
				return nil, err
			}
			if image, err := r.choose(inner, levels-1); err == nil {
				return image, nil
			} else if !errors.Is(err, errPlatform) {
				return nil, err
			}
		case !entry.MediaType.IsImage():
		case entry.Platform == nil && len(manifest.Manifests) == 1, entry.Platform != nil &&
			entry.Platform.Satisfies(r.Platform):
			return index.Image(entry.Digest)
		case entry.Platform != nil && len(others) < 20:
			others = append(others, entry.Platform.String())
		}
	}
	return nil, fmt.Errorf("%w %s: it has %s", errPlatform, r.Platform,
		strings.Join(append(others, "no others")[:max(1, len(others))], ", "))
}

var errPlatform = errors.New("the image is not for this machine's platform")
