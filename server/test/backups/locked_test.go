package backups_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptTrust_LockedBucket shows that backups in a bucket with S3 Object Lock are kept as long as they must be, from
// the server itself too, and no longer.
func TestAcceptTrust_LockedBucket(t *testing.T) {
	t.Parallel()
	t.Run("files are locked until the backup expires", lockedUntilExpiration)
	t.Run("a lock that is longer than the ttl", lockedLongerThanTTL)
	t.Run("a backup is held and released", heldAndReleased)
	t.Run("an intruder with the credentials", intruder)
	t.Run("compliance mode", compliance)
	t.Run("a sealed location", lockedAndSealed)
	t.Run("a bucket that locks by itself", lockedByBucket)
	t.Run("a bucket that refuses retention", refusedRetention)
	t.Run("a bucket that lost a version", lostVersion)
}

// lockedSite is a site whose bucket has Object Lock.
type lockedSite struct {
	*site.Site
	bucket string
	s3     *s3.Client
}

// newLockedSite makes a site whose location has these keys, beside those of S3.
func newLockedSite(t *testing.T, rule *types.DefaultRetention, config map[string]string) lockedSite {
	t.Helper()
	s := site.New(t, "cleat.dev/s3")
	bucket := s.Cluster.NewLockingBucket(t, "locked", rule)
	s.BucketDir = filepath.Join(s.Cluster.S3.Dir, bucket)
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ObjectStorage.Bucket = bucket
		for key, value := range config {
			l.Spec.Config[key] = value
		}
	})
	return lockedSite{s, bucket, s.Cluster.S3Client()}
}

// version is an entry of a list of versions.
type version struct {
	key, id string
	marker  bool
}

// versions returns all versions and delete markers below a prefix.
func (s lockedSite) versions(prefix string) (all []version) {
	s.T.Helper()
	found, err := s.s3.ListObjectVersions(s.T.Context(), &s3.ListObjectVersionsInput{Bucket: &s.bucket, Prefix: &prefix})
	require.NoError(s.T, err)
	for i := range found.Versions {
		all = append(all, version{*found.Versions[i].Key, *found.Versions[i].VersionId, false})
	}
	for i := range found.DeleteMarkers {
		all = append(all, version{*found.DeleteMarkers[i].Key, *found.DeleteMarkers[i].VersionId, true})
	}
	return all
}

// requireLocked requires that each file of a backup has one version, which is locked, and returns the time of the first.
func (s lockedSite) requireLocked(backup string, mode types.ObjectLockRetentionMode) time.Time {
	s.T.Helper()
	all := s.versions("backups/" + backup + "/")
	require.Greater(s.T, len(all), 5)
	var until time.Time
	seen := map[string]bool{}
	for _, v := range all {
		require.False(s.T, seen[v.key], "%s was written twice", v.key)
		require.False(s.T, v.marker, v.key)
		seen[v.key] = true
		if strings.Contains(v.key, "/rewritten/") { // lines of the log that were late
			continue
		}
		lock, err := s.s3.GetObjectRetention(s.T.Context(), &s3.GetObjectRetentionInput{Bucket: &s.bucket, Key: &v.key})
		require.NoError(s.T, err, v.key)
		require.Equal(s.T, mode, lock.Retention.Mode, v.key)
		if until.IsZero() || lock.Retention.RetainUntilDate.Before(until) {
			until = *lock.Retention.RetainUntilDate
		}
	}
	require.Contains(s.T, seen, "backups/"+backup+"/velero-backup.json")
	return until
}

// awaitKept waits until a backup is shown as kept, and requires that nothing of it has changed.
func (s lockedSite) awaitKept(backup, state string) {
	s.T.Helper()
	s.Eventually("the backup is "+state, func(context.Context) (bool, error) {
		out, _, err := s.Run("backup", "get", backup)
		return strings.Contains(out, state), err
	})
	require.Equal(s.T, velerov1.BackupPhaseCompleted, s.Backup(backup).Status.Phase)
	described := s.Must("backup", "describe", backup)
	require.Contains(s.T, described, state)
	require.NotContains(s.T, described, "failed)")
	var requests velerov1.DeleteBackupRequestList
	require.NoError(s.T, s.Client.List(s.T.Context(), &requests, client.InNamespace(s.Namespace)))
	for i := range requests.Items {
		require.NotEqual(s.T, velerov1.DeleteBackupRequestPhaseProcessed, requests.Items[i].Status.Phase)
	}
}

// awaitEmpty waits until a backup is deleted, and requires that the bucket has nothing of it.
func (s lockedSite) awaitEmpty(backup string) {
	s.T.Helper()
	s.AwaitGone(new(velerov1.Backup), backup)
	require.Empty(s.T, s.versions("backups/"+backup+"/"))
	s.Eventually("no request is left", func(ctx context.Context) (bool, error) {
		var requests velerov1.DeleteBackupRequestList
		err := s.Client.List(ctx, &requests, client.InNamespace(s.Namespace))
		return len(requests.Items) == 0, err
	})
}

func lockedUntilExpiration(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "governance"})
	server := s.Serve()
	s.Available()
	s.Shop = s.Workload(3)
	s.Must("backup", "create", "whole", "--include-namespaces", s.Shop, "--ttl", "45s", "--wait")
	b := s.Backup("whole")
	until := s.requireLocked("whole", types.ObjectLockRetentionModeGovernance)
	require.True(t, b.Status.Expiration.Time.Equal(until), "%s, want %s", until, b.Status.Expiration)

	out := s.Must("backup", "delete", "whole", "--confirm", "--wait")
	state := "kept until " + until.UTC().Format(time.RFC3339)
	require.Contains(t, out, `Backup "whole" is `+state+" by its bucket, and is deleted afterwards.")
	s.awaitKept("whole", state)
	s.BeginRestore("back")
	s.CheckRestore("back")
	server.Kill()
	s.Serve()
	s.requireLocked("whole", types.ObjectLockRetentionModeGovernance)
	s.awaitEmpty("whole")
	require.False(t, time.Now().Before(until))
}

func lockedLongerThanTTL(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "GOVERNANCE", "objectLockFor": "30s"})
	server := s.Serve(site.Often...)
	s.Available()
	out := s.Must("backup-location", "describe", "default")
	require.Contains(t, out, "GOVERNANCE, for 30s from the end of a backup: a shorter ttl keeps files longer")
	s.Shop = s.Workload(3)
	s.Must("backup", "create", "whole", "--include-namespaces", s.Shop, "--ttl", "1s", "--wait")
	until := s.requireLocked("whole", types.ObjectLockRetentionModeGovernance)
	require.WithinDuration(t, time.Now().Add(30*time.Second), until, 25*time.Second)
	s.awaitKept("whole", "kept until ")
	server.Kill()
	s.Serve(site.Often...)
	s.awaitEmpty("whole")
}

func heldAndReleased(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "GOVERNANCE", "objectLockFor": "1s"})
	server := s.Serve(site.Often...)
	s.Available()
	s.Shop = s.Workload(3)
	s.Must("backup", "create", "whole", "--include-namespaces", s.Shop, "--wait")
	require.Contains(t, s.Must("backup", "hold", "whole"), `Backup "whole" is held.`)
	require.Contains(t, s.Must("backup", "get", "whole"), "Completed (held)")
	for _, v := range s.versions("backups/whole/") {
		held, err := s.s3.GetObjectLegalHold(t.Context(), &s3.GetObjectLegalHoldInput{Bucket: &s.bucket, Key: &v.key})
		require.NoError(t, err)
		require.Equal(t, types.ObjectLockLegalHoldStatusOn, held.LegalHold.Status, v.key)
	}
	s.Expire("whole")
	s.awaitKept("whole", "kept: held")
	server.Kill()
	s.Serve(site.Often...)
	s.awaitKept("whole", "kept: held")
	require.Contains(t, s.Must("backup", "describe", "whole"), "Legal hold:")
	require.Contains(t, s.Must("backup", "release", "whole"), `Backup "whole" is released.`)
	s.awaitEmpty("whole")

	_, stderr, err := s.Run("backup", "hold", "none")
	require.Error(t, err)
	require.Contains(t, stderr, "none")
}

// strike puts delete markers on all files of a backup, as an intruder does who has the credentials.
func (s lockedSite) strike(backup string) {
	s.T.Helper()
	for _, v := range s.versions("backups/" + backup + "/") {
		_, err := s.s3.DeleteObject(s.T.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &v.key})
		require.NoError(s.T, err)
	}
}

func intruder(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "GOVERNANCE"})
	server := s.Serve(site.Often...)
	s.Available()
	s.Shop = s.Workload(3)
	s.WholeBackup("")
	s.strike("whole")
	plain, err := s.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &s.bucket,
		Prefix: aws.String("backups/")})
	require.NoError(t, err)
	require.Empty(t, plain.Contents, "for others it is gone")

	synced := func() string {
		var l velerov1.BackupStorageLocation
		require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &l))
		return l.Status.LastSyncedTime.String()
	}
	for range 2 {
		before := synced()
		s.Eventually("the bucket is compared with the cluster", func(context.Context) (bool, error) {
			return synced() != before, nil
		})
	}
	require.Equal(t, []string{"whole"}, s.BackupNames())
	s.BeginRestore("back")
	s.CheckRestore("back")
	require.NoError(t, server.Stop())

	// A cluster that is new finds it too.
	require.NoError(t, s.Client.Delete(t.Context(), s.Named("whole")))
	s.Serve(site.Often...)
	s.AwaitNames("whole")
	s.Must("backup", "create", "another", "--include-namespaces", s.Shop, "--wait")
	out := s.Must("backup", "delete", "whole", "--confirm", "--wait")
	require.Contains(t, out, "kept until ")
}

func compliance(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "COMPLIANCE", "objectLockFor": "40s"})
	s.Serve()
	s.Available()
	s.Shop = s.Workload(3)
	s.WholeBackup("")
	s.requireLocked("whole", types.ObjectLockRetentionModeCompliance)
	for _, v := range s.versions("backups/whole/velero-backup.json") {
		_, err := s.s3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &v.key, VersionId: &v.id,
			BypassGovernanceRetention: aws.Bool(true)})
		require.ErrorContains(t, err, "AccessDenied")
	}
	s.Must("backup", "delete", "whole", "--confirm")
	s.awaitKept("whole", "kept until ")
	s.awaitEmpty("whole")
}

func lockedAndSealed(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "GOVERNANCE", "objectLockFor": "40s"})
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	s.Seal(identity.Recipient().String(), identity.String())
	scratch, err := os.MkdirTemp("", "s") // the path of a socket must be short
	require.NoError(t, err)
	s.Serve("--scratch-dir", scratch)
	s.Available()
	require.Contains(t, s.Must("backup-location", "describe", "default"), "GOVERNANCE, for 40s")
	s.Shop = s.Workload(3)
	s.WholeBackup("")
	s.requireLocked("whole", types.ObjectLockRetentionModeGovernance)
	s.strike("whole")
	s.BeginRestore("back")
	s.CheckRestore("back")
	s.Must("backup", "delete", "whole", "--confirm")
	s.awaitKept("whole", "kept until ")
	s.awaitEmpty("whole")
}

// A bucket that locks each object from its write on keeps what is staged too, and the backup is whole nevertheless.
func lockedByBucket(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, &types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1)}, nil)
	s.Serve()
	s.Available()
	out := s.Must("backup-location", "describe", "default")
	require.Contains(t, out, "GOVERNANCE, for 24h0m0s from each write, by the bucket: a shorter ttl keeps files longer")
	s.Shop = s.Workload(3)
	s.WholeBackup("")
	for _, v := range s.versions("backups/whole/") {
		_, err := s.s3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &v.key, VersionId: &v.id})
		require.ErrorContains(t, err, "AccessDenied", v.key) // versitygw does not tell until when
	}
	s.BeginRestore("back")
	s.CheckRestore("back")
}

func refusedRetention(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) { l.Spec.Config["objectLockMode"] = "COMPLIANCE" })
	s.Serve()
	s.Eventually("the location is not available", func(ctx context.Context) (bool, error) {
		var l velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, s.Key("default"), &l)
		return l.Status.Phase == velerov1.BackupStorageLocationPhaseUnavailable &&
			strings.Contains(l.Status.Message, "has no Object Lock") &&
			strings.Contains(l.Status.Message, "or remove objectLockMode"), err
	})
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) { delete(l.Spec.Config, "objectLockMode") })
	s.Available()
	require.Contains(t, s.Must("backup-location", "describe", "default"), "nothing")
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	_, stderr, err := s.Run("backup", "hold", "whole")
	require.Error(t, err)
	require.Contains(t, stderr, "has no Object Lock")
	s.Must("backup", "delete", "whole", "--confirm", "--wait")
}

// Somebody with the right of a bypass has removed a locked file.
func lostVersion(t *testing.T) {
	t.Parallel()
	s := newLockedSite(t, nil, map[string]string{"objectLockMode": "GOVERNANCE", "objectLockFor": "40s"})
	s.Serve()
	s.Available()
	s.Shop = s.Workload(3)
	s.WholeBackup("")
	for _, v := range s.versions("backups/whole/whole.tar.gz") {
		_, err := s.s3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &v.key, VersionId: &v.id,
			BypassGovernanceRetention: aws.Bool(true)})
		require.NoError(t, err)
	}
	s.BeginRestore("back")
	restore := s.AwaitEndOfRestore("back")
	require.NotEqual(t, velerov1.RestorePhaseCompleted, restore.Status.Phase)
	text, err := json.Marshal(restore.Status)
	require.NoError(t, err)
	require.Contains(t, string(text), "whole.tar.gz")
	s.Must("backup", "delete", "whole", "--confirm")
	s.awaitKept("whole", "kept until ")
	s.awaitEmpty("whole")
}
