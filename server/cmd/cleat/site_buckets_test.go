package main_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// changeLocation changes the location of a site.
func (s *site) changeLocation(change func(*velerov1.BackupStorageLocation)) {
	s.t.Helper()
	var location velerov1.BackupStorageLocation
	require.NoError(s.t, s.client.Get(s.t.Context(), s.key("default"), &location))
	before := location.DeepCopy()
	change(&location)
	require.NoError(s.t, s.client.Patch(s.t.Context(), &location, client.MergeFrom(before)))
}

// often makes a server look for expired backups and for new ones each second.
var often = []string{"--garbage-collection-frequency", "1s", "--backup-sync-period", "1s"}

// expire sets the expiration of a backup into the past.
func (s *site) expire(name string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"status":{"expiration":%q}}`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	require.NoError(s.t, s.client.Patch(s.t.Context(), s.named(name), client.RawPatch("application/merge-patch+json",
		[]byte(patch))))
}

func (s *site) named(name string) *velerov1.Backup {
	return &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// backupNames returns the names of the Backups in the cluster, sorted.
func (s *site) backupNames() []string {
	s.t.Helper()
	var list velerov1.BackupList
	require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace)))
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (s *site) awaitNames(want ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the backups are %v", want), func(context.Context) (bool, error) {
		if got := s.backupNames(); !slices.Equal(got, want) {
			return false, fmt.Errorf("they are %v", got)
		}
		return true, nil
	})
}

// copies stores copies of a backup in the bucket, each a complete backup of its own, as another cluster would.
func (s *site) copies(of string, change func(*velerov1.Backup), names ...string) {
	s.t.Helper()
	for _, name := range names {
		dir := filepath.Join(s.bucketDir, "backups", name)
		require.NoError(s.t, os.MkdirAll(dir, 0o755))
		for _, file := range s.files("backups/" + of) {
			content, err := os.ReadFile(filepath.Join(s.bucketDir, "backups", of, file))
			require.NoError(s.t, err)
			if file == "velero-backup.json" {
				continue
			}
			require.NoError(s.t, os.WriteFile(filepath.Join(dir, strings.Replace(file, of, name, 1)), content, 0o644))
		}
		s.storeMetadata(of, name, change)
	}
}

// storeMetadata stores a velero-backup.json, with that of another backup as the template.
func (s *site) storeMetadata(of, name string, change func(*velerov1.Backup)) {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.bucketDir, "backups", of, "velero-backup.json"))
	require.NoError(s.t, err)
	var b velerov1.Backup
	require.NoError(s.t, json.Unmarshal(content, &b))
	b.Name, b.UID = name, "uid-of-"+b.UID
	if change != nil {
		change(&b)
	}
	content, err = json.Marshal(&b)
	require.NoError(s.t, err)
	dir := filepath.Join(s.bucketDir, "backups", name)
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	whole := filepath.Join(s.t.TempDir(), "velero-backup.json") // a server that synchronises sees nothing less
	require.NoError(s.t, os.WriteFile(whole, content, 0o644))
	require.NoError(s.t, os.Rename(whole, filepath.Join(dir, "velero-backup.json")))
}
