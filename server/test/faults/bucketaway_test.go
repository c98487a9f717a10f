package faults_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// newWiredSite returns a site whose server reaches S3 through a wire.
func newWiredSite(t *testing.T) (*site.Site, *site.Wire) {
	t.Helper()
	s := site.New(t, "cleat.dev/s3")
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "default"}, &location))
	wire, s3 := site.WireTo(t, s.Cluster.S3.Endpoint)
	location.Spec.Config["s3Url"] = s3
	// Runs meet an outage that the validation has not detected.
	location.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Hour}
	require.NoError(t, s.Client.Update(t.Context(), &location))
	return s, wire
}

// bulk creates a namespace with large ConfigMaps, whose archive is uploaded in several parts, before small ones.
func bulk(s *site.Site, configMaps, small int) string {
	s.T.Helper()
	namespace := s.Workload(small)
	for i := range configMaps {
		data := make([]byte, 600<<10)
		_, _ = rand.Read(data) // never fails
		require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("bulk-%02d", i)},
			BinaryData: map[string][]byte{"data": data},
		}))
	}
	return namespace
}

const storeFailed = "the object store failed, trying again for up to "

// TestAcceptFaults_BucketAwayFromRuns makes S3 unavailable in the middle of backups and of a restore, and before the
// first call of others. Nothing fails or is attempted again, and each reports the wait once.
func TestAcceptFaults_BucketAwayFromRuns(t *testing.T) {
	t.Parallel()
	s, wire := newWiredSite(t)
	notes := s.WatchItems("200ms")
	completions := watchCompletions(s)
	server := s.Serve(append(notes.Args, "--concurrent-backups", "4", "--concurrent-restores", "2", "--restore-workers",
		"1")...)
	s.Available()
	s.Shop = s.Workload(30)
	s.WholeBackup("")
	s.BeginBackup("old")
	s.AwaitBackup("old", velerov1.BackupPhaseCompleted)

	names := []string{"short", "long", "bulk", "late"}
	s.BeginBackupOf("bulk", bulk(s, 20, 100))
	notes.AwaitItems(s, "bulk", 6)
	notes.Hold() // no run ends before S3 is away, however busy the machine is
	for name, shop := range map[string]string{"short": s.Workload(40), "long": s.Workload(80)} {
		s.BeginBackupOf(name, shop)
		s.AwaitBackup(name, velerov1.BackupPhaseInProgress)
	}
	s.BeginRestore("back")
	s.Eventually("the restore is in progress", func(ctx context.Context) (bool, error) {
		var r velerov1.Restore
		err := s.Client.Get(ctx, s.Key("back"), &r)
		return r.Status.Phase == velerov1.RestorePhaseInProgress, err
	})
	wire.Refuse()
	notes.Release()
	s.BeginBackupOf("late", s.Workload(2))
	s.BeginRestore("again")
	s.BeginDeletion("old")
	for _, run := range []string{"backup=" + s.Namespace + "/short", "backup=" + s.Namespace + "/bulk", "backup=" +
		s.Namespace + "/late",
		"restore=" + s.Namespace + "/back", "restore=" + s.Namespace + "/again", "backup=old "} {
		server.AwaitLine(storeFailed+"5m0s", run)
	}
	require.NoError(t, wire.Connect())

	s.AwaitCompleted(names)
	completions.require(t, append(names, "whole", "old"))
	for _, name := range names {
		var b velerov1.Backup
		require.NoError(t, s.Client.Get(t.Context(), s.Key(name), &b))
		require.Equal(t, "1", b.Annotations["cleat.dev/attempt"], name)
		s.RequireWhole(&b)
		for _, line := range []string{storeFailed, "the object store answers again"} {
			require.LessOrEqual(t, strings.Count(s.Must("backup", "logs", name), line), 1, name)
		}
	}
	log := s.Must("backup", "logs", "bulk")
	require.Contains(t, log, storeFailed+"5m0s", "its archive was on its way")
	require.Contains(t, log, "the object store answers again")
	for _, name := range []string{"back", "again"} {
		s.CheckRestore(name)
		var r velerov1.Restore
		require.NoError(t, s.Client.Get(t.Context(), s.Key(name), &r))
		require.Equal(t, "1", r.Annotations["cleat.dev/attempt"], name)
	}
	s.CheckDeleted("old")
}

// TestAcceptFaults_BucketAwayForTooLong makes S3 unavailable for longer than runs wait for it.
func TestAcceptFaults_BucketAwayForTooLong(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[string]string{
		"2s": "the object store has not answered for 2s, see --store-outage-timeout",
		"0":  "nothing answers",
	} {
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			s, wire := newWiredSite(t)
			notes := s.WatchItems("0s")
			server := s.Serve(append(notes.Args, "--store-outage-timeout", timeout)...)
			s.Available()
			s.Shop = s.Workload(5)
			s.WholeBackup("")
			notes.Hold()
			s.BeginBackupOf("fails", s.Shop)
			notes.AwaitItems(s, "fails", 1)
			wire.Refuse()
			notes.Release()
			b := s.AwaitBackup("fails", velerov1.BackupPhaseFailed)
			require.Contains(t, b.Status.FailureReason, "ObjectStore(cleat.dev/s3)")
			require.Contains(t, b.Status.FailureReason, want)
			s.BeginRestore("fails")
			var r velerov1.Restore
			s.Eventually("the restore has failed", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, s.Key("fails"), &r)
				return r.Status.Phase == velerov1.RestorePhaseFailed, err
			})
			require.Contains(t, r.Status.FailureReason, want)
			if timeout == "0" {
				require.NotContains(t, server.Log.String(), storeFailed)
			}
			require.NoError(t, wire.Connect())
			s.Eventually("what the backup has left is removed", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, s.Key("fails"), b)
				return b.Annotations["cleat.dev/partial-data"] == "", err
			})
			require.NotContains(t, s.Files("backups/fails"), "fails.tar.gz")
		})
	}
}
