package pluginimage

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

const (
	simpleSignature = "dev.cosignproject.cosign/signature" // annotation of a layer of an image of signatures
	bundleType      = "application/vnd.dev.sigstore.bundle"
	// of a statement that signs; others attest something about an image
	signPredicate  = "https://sigstore.dev/cosign/sign/v1"
	mostSignature  = 1 << 20 // bytes
	mostSignatures = 50
)

// Verify returns an error unless the holder of one of the private keys has signed the image with cosign: with a
// signature in the tag beside the image, or with a bundle that refers to it. keys are the paths of the public keys.
func (i *Image) Verify(keys ...string) error {
	if i.repository == nil {
		return fmt.Errorf("%s is a local image, which has no signatures: pull it from its registry", i.Ref)
	}
	var problems error
	for _, key := range keys {
		err := i.verify(key)
		if err == nil {
			return nil
		}
		problems = errors.Join(problems, err)
	}
	return problems
}

func (i *Image) verify(key string) error {
	verifier, err := signature.LoadVerifierFromPEMFile(key, crypto.SHA256)
	if err != nil {
		return fmt.Errorf("read the public key %s: %w", key, err)
	}
	beside, errBeside := i.verifyBeside(verifier)
	if beside {
		return nil
	}
	bundled, errBundled := i.verifyBundles(verifier)
	if bundled {
		return nil
	}
	if err := errors.Join(errBeside, errBundled); err != nil {
		return fmt.Errorf("image %s (%s) has no valid signature of %s: %w", i.Ref, i.Digest, key, err)
	}
	return fmt.Errorf(`image %s (%s) is not signed; "cosign sign --key" signs it`, i.Ref, i.Digest)
}

// verifyBeside reports whether a signature in the image with the tag sha256-DIGEST.sig is valid. The error says why
// none is.
func (i *Image) verifyBeside(verifier signature.Verifier) (bool, error) {
	signatures, err := remote.Image(signatureTag(*i.repository, i.Digest.String()), i.options...)
	if isNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	manifest, err := signatures.Manifest()
	if err != nil {
		return false, err
	}
	var problems error
	for _, layer := range manifest.Layers[:min(len(manifest.Layers), mostSignatures)] {
		err := i.verifySimple(verifier, signatures, layer)
		if err == nil {
			return true, nil
		}
		problems = errors.Join(problems, err)
	}
	return false, problems
}

// verifySimple returns an error unless a layer is a payload about this image that the annotation of the layer signs.
func (i *Image) verifySimple(verifier signature.Verifier, signatures v1.Image, layer v1.Descriptor) error {
	signed, err := base64.StdEncoding.DecodeString(layer.Annotations[simpleSignature])
	if err != nil {
		return fmt.Errorf("decode a signature: %w", err)
	}
	content, err := readLayer(signatures, layer)
	if err != nil {
		return err
	}
	if err := verifier.VerifySignature(bytes.NewReader(signed), bytes.NewReader(content)); err != nil {
		return err
	}
	return i.isSigned(content)
}

// isSigned returns an error unless the signed payload names this image.
func (i *Image) isSigned(content []byte) error {
	var about payload.Cosign
	if err := json.Unmarshal(content, &about); err != nil {
		return fmt.Errorf("decode what is signed: %w", err)
	}
	if got := about.Image.DigestStr(); got != i.Digest.String() {
		return fmt.Errorf("the signature is about %s", got)
	}
	return nil
}

// verifyBundles reports whether a bundle that refers to the image is valid. If none is valid, the error has the reason.
func (i *Image) verifyBundles(verifier signature.Verifier) (bool, error) {
	referrers, err := remote.Referrers(i.repository.Digest(i.Digest.String()), i.options...)
	if err != nil {
		return false, fmt.Errorf("look for bundles: %w", err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		return false, err
	}
	var problems error
	for _, entry := range manifest.Manifests[:min(len(manifest.Manifests), mostSignatures)] {
		if !strings.HasPrefix(entry.ArtifactType, bundleType) {
			continue
		}
		err := i.verifyBundle(verifier, i.repository.Digest(entry.Digest.String()))
		if err == nil {
			return true, nil
		}
		problems = errors.Join(problems, err)
	}
	return false, problems
}

// verifyBundle returns an error unless the bundle at ref has a signed statement about this image.
func (i *Image) verifyBundle(verifier signature.Verifier, ref name.Digest) error {
	image, err := remote.Image(ref, i.options...)
	if err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	if len(manifest.Layers) != 1 {
		return fmt.Errorf("bundle %s has %d layers instead of 1", ref.DigestStr(), len(manifest.Layers))
	}
	content, err := readLayer(image, manifest.Layers[0])
	if err != nil {
		return err
	}
	var bundle struct {
		Envelope json.RawMessage `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(content, &bundle); err != nil {
		return fmt.Errorf("decode bundle %s: %w", ref.DigestStr(), err)
	}
	if err := dsse.WrapVerifier(verifier).VerifySignature(bytes.NewReader(bundle.Envelope), nil); err != nil {
		return err
	}
	var signed struct {
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(bundle.Envelope, &signed); err != nil {
		return fmt.Errorf("decode the envelope of bundle %s: %w", ref.DigestStr(), err)
	}
	if err := i.isStated(signed.Payload); err != nil {
		return fmt.Errorf("bundle %s: %w", ref.DigestStr(), err)
	}
	return nil
}

// isStated returns an error unless a signed statement is one of a signature of this image.
func (i *Image) isStated(payload []byte) error {
	var statement struct {
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		return fmt.Errorf("decode its statement: %w", err)
	}
	if statement.PredicateType != signPredicate {
		return fmt.Errorf("it is not a signature but attests %s", statement.PredicateType)
	}
	for _, subject := range statement.Subject {
		if subject.Digest[i.Digest.Algorithm] == i.Digest.Hex {
			return nil
		}
	}
	return errors.New("it is not about this image")
}

// readLayer returns the content of a small layer, which is compared with its digest.
func readLayer(image v1.Image, layer v1.Descriptor) ([]byte, error) {
	if layer.Size > mostSignature {
		return nil, fmt.Errorf("a signature of %d bytes is too large", layer.Size)
	}
	found, err := image.LayerByDigest(layer.Digest)
	if err != nil {
		return nil, err
	}
	content, err := found.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

func isNotFound(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}
