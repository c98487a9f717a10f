package trust

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// keyOfKMS is the file with the key of the KMS that the test binary plays.
const keyOfKMS = "TEST_KMS_KEY"

func TestMain(m *testing.M) {
	if path := os.Getenv(keyOfKMS); path != "" && len(os.Args) == 3 {
		if err := playKMS(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeKMS implements kms.SignerVerifier.
type fakeKMS struct{ signature.SignerVerifier }

func (fakeKMS) CreateKey(context.Context, string) (crypto.PublicKey, error) {
	return nil, os.ErrInvalid
}
func (fakeKMS) CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error) {
	return nil, nil, os.ErrInvalid
}
func (fakeKMS) SupportedAlgorithms() []string { return nil }
func (fakeKMS) DefaultAlgorithm() string      { return "" }

// playKMS answers one call of a program of sigstore's library.
func playKMS(path string) error {
	der, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return err
	}
	signer, err := signature.LoadSignerVerifier(key, crypto.SHA256)
	if err != nil {
		return err
	}
	args, err := handler.GetPluginArgs(os.Args)
	if err != nil {
		return err
	}
	_, err = handler.Dispatch(os.Stdout, os.Stdin, args, fakeKMS{signer})
	return err
}

// TestKeyOfKMSSigns signs with a program in the PATH, as sigstore's library calls them.
func TestKeyOfKMSSigns(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(path, der, 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "sigstore-kms-testkms")))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(keyOfKMS, path)
	signer, err := OpenKMS(t.Context(), "testkms://backups")
	require.NoError(t, err)
	d := document()
	checksums, err := d.Encode()
	require.NoError(t, err)
	sum, err := signer.Sign(t.Context(), checksums)
	require.NoError(t, err)
	public, err := ParsePublicKey(signer.Public.PEM)
	require.NoError(t, err)
	require.Equal(t, velerov1.SignatureValid, Ring{{PublicKey: public}}.Judge(d, checksums, sum).State)

	require.NoError(t, os.Remove(path))
	_, err = signer.Sign(t.Context(), checksums)
	require.ErrorContains(t, err, "sign with key sha256:")
}
