package trust

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// The types of what is signed. They are signed too, so that no document passes for one of another type.
const (
	checksumsType = "application/vnd.cleat.checksums+json"
	reportType    = "application/vnd.cleat.rehearsal+json"
)

// Signatures is the content of a file of signatures. Each covers the whole file of checksums.
type Signatures struct {
	PayloadType string      `json:"payloadType"`
	Signatures  []Signature `json:"signatures"`
}

// Signature is a signature of one key.
type Signature struct {
	KeyID     string `json:"keyid"`
	Signature []byte `json:"sig"`
}

// mostSignatures is how many signatures are looked at.
const mostSignatures = 32

// ParseSignatures reads a file of signatures.
func ParseSignatures(data []byte) (*Signatures, error) {
	s := new(Signatures)
	if len(data) > 1<<20 {
		return nil, errors.New("it is larger than 1 MiB")
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("want the JSON of signatures: %w", err)
	}
	if err := s.check(checksumsType); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Signatures) check(want string) error {
	switch {
	case s.PayloadType != want:
		return fmt.Errorf("payloadType is %q, want %s", s.PayloadType, want)
	case len(s.Signatures) == 0:
		return errors.New("signatures is empty")
	case len(s.Signatures) > mostSignatures:
		return fmt.Errorf("signatures has %d elements, at most %d are allowed", len(s.Signatures), mostSignatures)
	}
	return nil
}

// message returns what is signed for bytes of a type: DSSE's pre-authentication encoding of them.
func message(payloadType string, content []byte) []byte {
	head := "DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(content)) + " "
	return append([]byte(head), content...)
}

// Signer signs with a private key. It is safe for concurrent use.
type Signer struct {
	Public PublicKey
	sign   func(ctx context.Context, message []byte) ([]byte, error)
}

// Sign returns the file of signatures for checksums.
func (s *Signer) Sign(ctx context.Context, checksums []byte) ([]byte, error) {
	signed, err := s.signatures(ctx, checksumsType, checksums)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(signed, "", " ")
	return append(data, '\n'), err
}

func (s *Signer) signatures(ctx context.Context, payloadType string, content []byte) (Signatures, error) {
	text := message(payloadType, content)
	sum, err := s.sign(ctx, text)
	if err != nil {
		return Signatures{}, fmt.Errorf("sign with key %s: %w", s.Public.ID, err)
	}
	if err := s.Public.Verify(text, sum); err != nil { // a key of a KMS that was replaced
		return Signatures{}, fmt.Errorf("the signature does not belong to key %s: %w", s.Public.ID, err)
	}
	return Signatures{payloadType, []Signature{{s.Public.ID, sum}}}, nil
}

// PublicKey verifies signatures.
type PublicKey struct {
	ID  string
	PEM []byte
	key crypto.PublicKey
}

func newPublicKey(key crypto.PublicKey) (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, err
	}
	sum := sha256.Sum256(der)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return PublicKey{ID: "sha256:" + hex.EncodeToString(sum[:]), PEM: text, key: key}, nil
}

// Verify returns an error unless a signature of a text is one of the key.
func (k PublicKey) Verify(text, sum []byte) error {
	verifier, err := signature.LoadVerifier(k.key, crypto.SHA256)
	if err != nil {
		return err
	}
	return verifier.VerifySignature(bytes.NewReader(sum), bytes.NewReader(text))
}

// ParsePublicKey reads a public key in PEM: Ed25519, or of a KMS, ECDSA or RSA.
func ParsePublicKey(text []byte) (PublicKey, error) {
	if block, _ := pem.Decode(text); block != nil && block.Type != "PUBLIC KEY" {
		return PublicKey{}, fmt.Errorf(`it is a PEM block of type %q, want "PUBLIC KEY", as "cleat key show" prints it`,
			block.Type)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return PublicKey{}, fmt.Errorf(`want a public key in PEM, as "cleat key show" prints it: %w`, err)
	}
	if _, err := signature.LoadVerifier(key, crypto.SHA256); err != nil {
		return PublicKey{}, fmt.Errorf("want a public key of Ed25519, ECDSA or RSA: %w", err)
	}
	return newPublicKey(key)
}

// privateType is the type of the PEM block of a private key.
const privateType = "PRIVATE KEY"

// NewKey makes an Ed25519 key and returns it as PEM.
func NewKey() ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateType, Bytes: der}), nil
}

// ParseKey reads a private Ed25519 key in PEM. Its error has nothing of the key.
func ParseKey(text []byte) (*Signer, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New(`want an Ed25519 key in PEM, as "cleat key create" makes it`)
	case block.Type != privateType:
		return nil, fmt.Errorf(`it is a PEM block of type %q, want %q, as "cleat key create" makes it`, block.Type,
			privateType)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("there is something after the key, want one key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New(`the PEM block has no Ed25519 key, want one as "cleat key create" makes it`)
	}
	public, err := newPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	return &Signer{Public: public, sign: func(_ context.Context, text []byte) ([]byte, error) {
		return ed25519.Sign(private, text), nil
	}}, nil
}

// OpenKMS returns the signer of a key in a KMS, such as "awskms:///alias/backups". The program sigstore-kms-NAME, for
// awskms: sigstore-kms-awskms, must be in the PATH of the server.
func OpenKMS(ctx context.Context, key string) (*Signer, error) {
	provider, err := kms.Get(ctx, key, crypto.SHA256)
	if _, missing := errors.AsType[*kms.ProviderNotFoundError](err); missing {
		return nil, fmt.Errorf("the KMS key %s: there is no program for it in the PATH of the server; sigstore's programs "+
			"are called sigstore-kms-NAME: %w", key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the KMS key %s: %w", key, err)
	}
	known, err := provider.PublicKey(options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("read the public key of the KMS key %s: %w", key, err)
	}
	public, err := newPublicKey(known)
	if err != nil {
		return nil, fmt.Errorf("the public key of the KMS key %s: %w", key, err)
	}
	return &Signer{Public: public, sign: func(ctx context.Context, text []byte) ([]byte, error) {
		return provider.SignMessage(bytes.NewReader(text), options.WithContext(ctx))
	}}, nil
}
