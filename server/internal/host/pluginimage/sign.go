package pluginimage

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// Sign stores a signature of an image in the tag beside it, as "cosign sign --key" does. It replaces the signatures that
// are there.
func Sign(image name.Digest, signer signature.Signer, options ...remote.Option) error {
	content, err := payload.Cosign{Image: image}.MarshalJSON()
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("sign image %s: %w", image, err)
	}
	signatures, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:       static.NewLayer(content, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{simpleSignature: base64.StdEncoding.EncodeToString(signed)},
	})
	if err != nil {
		return err
	}
	if err := remote.Write(signatureTag(image.Context(), image.DigestStr()), signatures, options...); err != nil {
		return fmt.Errorf("push the signature of image %s: %w", image, err)
	}
	return nil
}

// signatureTag returns the tag with the signatures of an image.
func signatureTag(repository name.Repository, digest string) name.Tag {
	return repository.Tag(strings.Replace(digest, ":", "-", 1) + ".sig")
}
