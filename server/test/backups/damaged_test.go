package backups_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// damageable returns the files of a backup that may be damaged, with what a request says of those that its deletion reads.
func damageable() map[string]string {
	return map[string]string{
		".tar.gz":                      "the archive, for whose items no DeleteItemAction was called",
		"velero-backup.json":           "decode velero-backup.json of backup",
		"-volumeinfo.json.gz":          "-volumeinfo.json.gz",
		"-podvolumebackups.json.gz":    "-podvolumebackups.json.gz",
		"-volumesnapshots.json.gz":     "BackupVolumeSnapshots",
		"-csi-volumesnapshots.json.gz": "",
		"-itemoperations.json.gz":      "",
	}
}

// fileOf returns the path of a file of a backup.
func fileOf(s *site.Site, backup, suffix string) string {
	if !strings.HasPrefix(suffix, ".") && !strings.HasPrefix(suffix, "-") {
		return filepath.Join(s.BucketDir, "backups", backup, suffix)
	}
	return filepath.Join(s.BucketDir, "backups", backup, backup+suffix)
}

// TestAcceptBackup_DamagedIsDeleted deletes backups of which one file is damaged, by request and by expiry. What cannot be
// read is said, and no backup stays. Files that nothing proves to belong to a backup stay, unless that is forced.
func TestAcceptBackup_DamagedIsDeleted(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Resources = site.Few()
	s.Serve(append([]string{"--features", "EnableCSI"}, site.Often...)...)
	s.Available()
	s.Shop = s.Workload(2)
	backups := map[string]string{} // the damaged file of each
	add := func(way string, n int, suffix string) {
		name := fmt.Sprintf("%s-%02d", way, n)
		backups[name] = suffix
		s.BeginBackup(name)
	}
	n := 0
	for suffix := range damageable() {
		n++
		add("requested", n, suffix)
		if n%3 == 0 {
			add("decided", n, suffix)
		}
		add("expired", n, suffix)
	}
	add("unproven", 1, "velero-backup.json")
	add("unproven", 2, "velero-backup.json")
	add("forced", 1, "velero-backup.json")
	for name, suffix := range backups {
		b := s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		require.NoError(t, os.WriteFile(fileOf(s, name, suffix), []byte(`{"damaged":`), 0o600))
		if strings.HasPrefix(name, "unproven") || strings.HasPrefix(name, "forced") { // as if another server had made it
			before := b.DeepCopy()
			delete(b.Annotations, velerov1.FilesAnnotation)
			require.NoError(t, s.Client.Patch(t.Context(), b, client.MergeFrom(before)))
		}
	}
	for name := range backups {
		switch way, _, _ := strings.Cut(name, "-"); way {
		case "requested":
			s.BeginDeletion(name)
		case "decided":
			s.Must("backup", "delete", name, "--confirm", "--delete-snapshots")
		case "forced":
			s.Must("backup", "delete", name, "--confirm", "--force")
		case "expired":
			s.Expire(name)
		}
	}
	s.BeginDeletion("unproven-01")
	s.Expire("unproven-02")

	for name, suffix := range backups {
		s.AwaitGone(new(velerov1.Backup), name)
		way, _, _ := strings.Cut(name, "-")
		if way == "unproven" {
			require.Contains(t, s.Files("backups/"+name), name+".tar.gz", "nothing proves that it is a file of the backup")
		} else {
			require.Empty(t, s.Files("backups/"+name), name)
		}
		if way != "requested" && name != "unproven-01" {
			continue
		}
		said := damageable()[suffix]
		if way == "unproven" {
			said = "nothing proves that they belong to the backup: unproven-01-"
		}
		s.Eventually("the request for "+name+" says what was damaged", func(ctx context.Context) (bool, error) {
			var request velerov1.DeleteBackupRequest
			err := s.Client.Get(ctx, s.Key(name), &request)
			if said == "" {
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			}
			return strings.Contains(strings.Join(request.Status.Errors, "\n"), said), err
		})
	}
}
