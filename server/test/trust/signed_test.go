package trust_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// signingSecret puts a private key into the Secret "signing", or another one in its place.
func signingSecret(s *site.Site, path string) {
	s.T.Helper()
	content, err := os.ReadFile(path)
	require.NoError(s.T, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "signing"},
		Data: map[string][]byte{"key": content}}
	err = s.Client.Create(s.T.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.Client.Update(s.T.Context(), secret)
	}
	require.NoError(s.T, err)
}

// indented returns the public key of a file for a config file.
func indented(s *site.Site, path string) string {
	s.T.Helper()
	content, err := os.ReadFile(path)
	require.NoError(s.T, err)
	return strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", "\n      ")
}

// restored restores a backup to a namespace of its own and returns the Restore.
func restored(s *site.Site, name, backup string) *velerov1.Restore {
	s.T.Helper()
	s.RestoreTo(name, backup, s.Shop, s.Shop+"-"+name)
	var r velerov1.Restore
	s.Eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	return &r
}

// requireNothing requires that a restore has not even created its namespace.
func requireNothing(s *site.Site, name string) {
	s.T.Helper()
	err := s.Client.Get(s.T.Context(), client.ObjectKey{Name: s.Shop + "-" + name}, &corev1.Namespace{})
	require.True(s.T, apierrors.IsNotFound(err), "something was written: %v", err)
}

// TestAcceptTrust_Signed backs up with a key, which is rotated, lost, and expires. Where a signature is required, what
// nobody trusted has signed, and what was changed, is refused before anything is written; what is trusted is restored.
func TestAcceptTrust_Signed(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Shop = s.Workload(5)
	first, second := newKey(s), filepath.Join(t.TempDir(), "second.pem")
	s.Must("key", "create", "--out", second)
	signingSecret(s, first)
	const signs = "backups: {signing: {key: {secret: signing/key}}}\n"
	requires := func(more string) []string {
		return []string{"--config", site.ConfigFile(t, signs+"restores: {requireSignature: true}\n"+more)}
	}
	server := s.Serve("--config", site.ConfigFile(t, "tracing: {}\n"))
	s.Available()
	s.BeginBackup("unsigned")
	s.AwaitBackup("unsigned", velerov1.BackupPhaseCompleted)
	require.Equal(t, velerov1.SignatureMissing, verified(s, "unsigned")["unsigned"].Signature)
	require.Contains(t, s.Must("key", "show"), "The server has no keys")
	server.Kill()

	server = s.Serve(requires("")...)
	s.Available()
	for _, name := range []string{"old", "old-copy", "changed"} {
		// The archives of the same objects would be the same if they are made within a second.
		s.Put(`{apiVersion: v1, kind: ConfigMap, metadata: {name: of-` + name + `, namespace: ` + s.Shop + `}}`)
		s.BeginBackup(name)
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
	}
	s.VeleroMade("made-by-velero", nil, false)
	s.Must("key", "create", "--secret", "another")
	_, errs, err := s.Run("key", "create", "--secret", "another")
	require.Error(t, err)
	require.Contains(t, errs, "the Secret "+s.Namespace+"/another exists")
	shown := s.Must("key", "show")
	require.Equal(t, strings.Fields(s.Must("key", "show", first+".pub"))[1], strings.Trim(strings.Fields(shown)[1], ","))
	require.Contains(t, shown, "signs backups")
	require.Contains(t, shown, "BEGIN PUBLIC KEY")

	require.Equal(t, velerov1.RestorePhaseCompleted, restored(s, "of-old", "old").Status.Phase)
	for backup, want := range map[string]string{"unsigned": "it is unsigned", "made-by-velero": "it is unsigned"} {
		r := restored(s, "of-"+backup, backup)
		require.Equal(t, velerov1.RestorePhaseFailedValidation, r.Status.Phase)
		require.Contains(t, strings.Join(r.Status.ValidationErrors, " "), want)
		requireNothing(s, "of-"+backup)
	}

	// The archive of another signed backup, and a signed backup under another name.
	dir := filepath.Join(s.BucketDir, "backups")
	other, err := os.ReadFile(filepath.Join(dir, "old", "old.tar.gz"))
	require.NoError(t, err)
	s.Overwrite(filepath.Join(dir, "changed", "changed.tar.gz"), other)
	r := restored(s, "of-changed", "changed")
	require.Equal(t, velerov1.RestorePhaseFailed, r.Status.Phase)
	require.Contains(t, r.Status.FailureReason, "changed.tar.gz has ")
	requireNothing(s, "of-changed")
	for _, file := range s.Files("backups/old") {
		content, err := os.ReadFile(filepath.Join(dir, "old", file))
		require.NoError(t, err)
		s.Overwrite(filepath.Join(dir, "old-copy", strings.Replace(file, "old", "old-copy", 1)), content)
	}
	r = restored(s, "of-copy", "old-copy")
	require.Equal(t, velerov1.RestorePhaseFailedValidation, r.Status.Phase)
	require.Contains(t, strings.Join(r.Status.ValidationErrors, " "), "what is signed is backup old of ")
	requireNothing(s, "of-copy")

	// The key is rotated: the old public key stays accepted, until it is not.
	signingSecret(s, second)
	server.Kill()
	const former = "trust:\n  keys:\n  - name: former\n"
	public := "    publicKey: |\n      " + indented(s, first+".pub") + "\n"
	server = s.Serve(requires(former + public)...)
	s.BeginBackup("new")
	s.AwaitBackup("new", velerov1.BackupPhaseCompleted)
	all := verified(s, "old", "new")
	require.Equal(t, velerov1.SignatureValid, all["old"].Signature)
	require.Equal(t, velerov1.SignatureValid, all["new"].Signature)
	require.NotEqual(t, all["old"].Key, all["new"].Key)
	require.Equal(t, velerov1.RestorePhaseCompleted, restored(s, "of-old-again", "old").Status.Phase)
	server.Kill()
	server = s.Serve(requires(former + "    notAfter: \"2020-01-01T00:00:00Z\"\n" + public)...)
	r = restored(s, "of-expired", "old")
	require.Equal(t, velerov1.RestorePhaseFailedValidation, r.Status.Phase)
	require.Contains(t, strings.Join(r.Status.ValidationErrors, " "), "key former (sha256:")
	require.Contains(t, strings.Join(r.Status.ValidationErrors, " "), "is accepted for backups until 2020-01-01T00:00:00Z")
	r = restored(s, "of-new", "new")
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, r.Status.ValidationErrors)
	server.Kill()

	// The key is lost: backups are unsigned, and that is said.
	require.NoError(t, s.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		Name: "signing"}}))
	server = s.Serve(requires("")...)
	s.BeginBackup("lost")
	s.AwaitBackup("lost", velerov1.BackupPhaseCompleted)
	server.AwaitLog("there is no Secret " + s.Namespace + "/signing")
	require.Equal(t, velerov1.SignatureMissing, verified(s, "lost")["lost"].Signature)
	require.Contains(t, s.Must("key", "show"), "cannot be used: ")
	require.Equal(t, velerov1.RestorePhaseFailedValidation, restored(s, "of-lost", "lost").Status.Phase)
	requireNothing(s, "of-lost")
}
