package key

import (
	"crypto/elliptic"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/internal/setup/release"
)

// TestReleasesAreVerified signs sums with each kind of key that a releaser may have, and verifies them.
func TestReleasesAreVerified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) {
		t.Helper()
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o600))
	}
	pair := func(name string, password cryptoutils.PassFunc) {
		t.Helper()
		private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), password)
		require.NoError(t, err)
		write(name, string(private))
		write(name+".pub", string(public))
	}
	run := func(args ...string) (string, error) {
		return clitest.Execute(t, NewCommand, append([]string{"key"}, args...)...)
	}
	pair("plain.key", cryptoutils.SkipPassword)
	pair("cosign.key", cryptoutils.StaticPasswordFunc([]byte("secret")))
	_, err := run("create", "--out", at("cleat.key"))
	require.NoError(t, err)
	list := fmt.Sprintf("%x  here\n%x  not-here\n", sha256.Sum256([]byte("content")), sha256.Sum256(nil))
	write("here", "content")
	for _, key := range []string{"plain.key", "cosign.key", "cleat.key"} {
		write(release.Checksums, list)
		signer, err := release.OpenKey(at(key), "secret")
		require.NoError(t, err)
		require.NoError(t, release.SignFile(at(release.Checksums), signer))
		verify := func() (string, error) { return run("verify", at(release.Checksums), "--key", at(key+".pub")) }
		out, err := verify()
		require.NoError(t, err)
		require.Contains(t, out, "signed with key sha256:")
		require.Contains(t, out, "here: OK")
		require.NotContains(t, out, "not-here")

		write("here", "changed")
		_, err = verify()
		require.ErrorContains(t, err, "here has the SHA-256 sum")
		write("here", "content")
		write(release.Checksums, list+"\n")
		_, err = verify()
		require.ErrorContains(t, err, "is not what the holder of key")
		_, err = run("verify", at(release.Checksums), "--key", at(key+".pub"), "--signature", at("here"))
		require.ErrorContains(t, err, "want a signature in base64")
		_, err = run("verify", at("here"), "--key", at(key+".pub"))
		require.ErrorContains(t, err, "here.sig")
	}
	for password, want := range map[string]string{"": "COSIGN_PASSWORD", "wrong": "read the private key"} {
		_, err := release.OpenKey(at("cosign.key"), password)
		require.ErrorContains(t, err, want)
	}
	_, err = run("verify", at("here"), "--key", at("here"))
	require.Error(t, err)
	_, err = run("verify", at("here"))
	require.ErrorContains(t, err, `"key" not set`)
}
