package site

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ChangeLocation changes the location of a site.
func (s *Site) ChangeLocation(change func(*velerov1.BackupStorageLocation)) {
	s.T.Helper()
	var location velerov1.BackupStorageLocation
	require.NoError(s.T, s.Client.Get(s.T.Context(), s.Key("default"), &location))
	before := location.DeepCopy()
	change(&location)
	require.NoError(s.T, s.Client.Patch(s.T.Context(), &location, client.MergeFrom(before)))
}

// Often makes a server check for expired backups and for new ones each second.
var Often = []string{"--garbage-collection-frequency", "1s", "--backup-sync-period", "1s"}

// Expire sets the expiration of a backup into the past.
func (s *Site) Expire(name string) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"status":{"expiration":%q}}`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	require.NoError(s.T, s.Client.Patch(s.T.Context(), s.Named(name), client.RawPatch("application/merge-patch+json",
		[]byte(patch))))
}

// Named returns a Backup that has only a name.
func (s *Site) Named(name string) *velerov1.Backup {
	return &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
}

// BackupNames returns the names of the Backups in the cluster, sorted.
func (s *Site) BackupNames() []string {
	s.T.Helper()
	var list velerov1.BackupList
	require.NoError(s.T, s.Client.List(s.T.Context(), &list, client.InNamespace(s.Namespace)))
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// AwaitNames waits until the cluster has the Backups of these names and no others.
func (s *Site) AwaitNames(want ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("the backups are %v", want), func(context.Context) (bool, error) {
		if got := s.BackupNames(); !slices.Equal(got, want) {
			return false, fmt.Errorf("they are %v", got)
		}
		return true, nil
	})
}

// Copies stores copies of a backup in the bucket, each a complete backup of its own, like another cluster.
func (s *Site) Copies(of string, change func(*velerov1.Backup), names ...string) {
	s.T.Helper()
	for _, name := range names {
		dir := filepath.Join(s.BucketDir, "backups", name)
		require.NoError(s.T, os.MkdirAll(dir, 0o755))
		for _, file := range s.Files("backups/" + of) {
			content, err := os.ReadFile(filepath.Join(s.BucketDir, "backups", of, file))
			require.NoError(s.T, err)
			if file == "velero-backup.json" {
				continue
			}
			require.NoError(s.T, os.WriteFile(filepath.Join(dir, strings.Replace(file, of, name, 1)), content, 0o644))
		}
		s.StoreMetadata(of, name, change)
	}
}

// StoreMetadata stores a velero-backup.json, made from that of another backup.
func (s *Site) StoreMetadata(of, name string, change func(*velerov1.Backup)) {
	s.T.Helper()
	content, err := os.ReadFile(filepath.Join(s.BucketDir, "backups", of, "velero-backup.json"))
	require.NoError(s.T, err)
	var b velerov1.Backup
	require.NoError(s.T, json.Unmarshal(content, &b))
	b.Name, b.UID = name, "uid-of-"+b.UID
	if change != nil {
		change(&b)
	}
	content, err = json.Marshal(&b)
	require.NoError(s.T, err)
	dir := filepath.Join(s.BucketDir, "backups", name)
	require.NoError(s.T, os.MkdirAll(dir, 0o755))
	whole := filepath.Join(s.T.TempDir(), "velero-backup.json") // a server that synchronises never reads a partial file
	require.NoError(s.T, os.WriteFile(whole, content, 0o644))
	require.NoError(s.T, os.Rename(whole, filepath.Join(dir, "velero-backup.json")))
}

// Seal puts cleat.dev/sealed in front of the store of the location. The Secret "seal-keys" has the private keys.
func (s *Site) Seal(recipients string, privateKeys ...string) {
	s.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "seal-keys"}}
	_, err := controllerutil.CreateOrUpdate(s.T.Context(), s.Client, secret, func() error {
		secret.Data = map[string][]byte{"identities": []byte(strings.Join(privateKeys, "\n"))}
		return nil
	})
	require.NoError(s.T, err)
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		if l.Spec.Provider != "cleat.dev/sealed" {
			l.Spec.Config["store"], l.Spec.Provider = l.Spec.Provider, "cleat.dev/sealed"
		}
		l.Spec.Config["secret"], l.Spec.Config["recipients"] = "seal-keys/identities", recipients
	})
}
