package release

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// SignatureSuffix ends the name of the file with the signature of another one.
const SignatureSuffix = ".sig"

// OpenKey reads a private key in PEM: one of cosign, which is encrypted with a password, of "cleat key create", or of
// openssl. Its error has nothing of the key.
func OpenKey(path, password string) (signature.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) {
		if password == "" {
			return nil, errors.New("it is encrypted; want its password in the environment, as COSIGN_PASSWORD")
		}
		return []byte(password), nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the private key %s: %w", path, err)
	}
	signer, err := signature.LoadSigner(private, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("the private key %s: want one of ECDSA, Ed25519 or RSA: %w", path, err)
	}
	return signer, nil
}

// SignFile writes the signature of a file beside it, in base64, as "cosign sign-blob --key" does.
func SignFile(path string, signer signature.Signer) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("sign %s: %w", path, err)
	}
	return os.WriteFile(path+SignatureSuffix, []byte(base64.StdEncoding.EncodeToString(signed)+"\n"), 0o644)
}
