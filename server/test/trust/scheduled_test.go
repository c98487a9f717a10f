package trust_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// last waits for the end of a verification of a backup for which ended is true.
func last(s *site.Site, name string, ended func(*velerov1.VerificationResult) bool) *velerov1.VerificationResult {
	s.T.Helper()
	var found *velerov1.VerificationResult
	s.Eventually("backup "+name+" was verified", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		if err := s.Client.Get(ctx, s.Key(name), &b); err != nil {
			return false, err
		}
		known, err := velerov1.VerificationOf(&b)
		if err != nil || known == nil || known.Last == nil || !ended(known.Last) {
			return false, err
		}
		found = known.Last
		return true, nil
	})
	return found
}

// TestAcceptTrust_Scheduled has the server verify backups after they ended and again, while it is killed in the middle.
// It finds what was changed meanwhile, and says so in the table, the description and the metrics.
func TestAcceptTrust_Scheduled(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(20)
	config := site.ConfigFile(t, "verification: {after: true, every: 3s}\n")
	server := s.Serve("--config", config)
	s.Available()
	hit := g.Arm(1, site.Before, func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/first/first-checksums.json")
	})
	s.BeginBackup("first")
	s.AwaitBackup("first", velerov1.BackupPhaseCompleted)
	s.AwaitHit(hit)
	require.Contains(t, s.Must("backup", "get", "first"), "Verifying")
	server.Kill()
	g.Disarm()
	server = s.Serve("--config", config)
	one := last(s, "first", func(*velerov1.VerificationResult) bool { return true })
	require.Equal(t, velerov1.VerifiedIntact, one.Outcome, one.Findings)
	require.Equal(t, velerov1.SignatureMissing, one.Signature)
	again := last(s, "first", func(r *velerov1.VerificationResult) bool { return r.Ended.After(one.Ended.Time) })
	require.Equal(t, velerov1.VerifiedIntact, again.Outcome)
	server.Kill()

	path := filepath.Join(s.BucketDir, "backups", "first", "first.tar.gz")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	s.Overwrite(path, content[:len(content)/2])
	server = s.Serve("--config", config, "--metrics-address", "127.0.0.1:0")
	damaged := last(s, "first", func(r *velerov1.VerificationResult) bool {
		return r.Outcome == velerov1.VerifiedDamaged
	})
	require.Equal(t, "file first.tar.gz", damaged.Findings[0].Of)
	require.Contains(t, damaged.Findings[0].Message, "the file was cut")
	var items int
	for _, f := range damaged.Findings {
		if strings.HasPrefix(f.Of, "item ") && f.Kind == velerov1.FindingMissing {
			items++
		}
	}
	require.Positive(t, items, "the items that are lost are named")
	require.Contains(t, s.Must("backup", "get", "first"), "Damaged, ")
	require.Contains(t, s.Must("backup", "describe", "first"), "changed: file first.tar.gz: the file was cut")

	server.Measures(`cleat_backup_damaged{schedule=""} 1`, `cleat_backup_verification_failed{schedule=""} 0`,
		`cleat_backup_oldest_verification_timestamp{schedule=""} .+`)
	s.Overwrite(path, content)
	last(s, "first", func(r *velerov1.VerificationResult) bool { return r.Outcome == velerov1.VerifiedIntact })

	// A backup that is deleted is not verified any more, and nothing of it stays.
	s.BeginDeletion("first")
	s.CheckDeleted("first")
	require.NotContains(t, server.Log.String(), "panic")
}
