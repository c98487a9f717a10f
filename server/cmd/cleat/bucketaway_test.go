package main_test

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
)

// newWiredSite returns a site whose server reaches S3 through a wire.
func newWiredSite(t *testing.T) (*site, *wire) {
	t.Helper()
	s := newSite(t, "cleat.dev/s3")
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "default"}, &location))
	wire, s3 := wireTo(t, s.cluster.S3.Endpoint)
	location.Spec.Config["s3Url"] = s3
	// runs meet an outage that the validation has not noticed
	location.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Hour}
	require.NoError(t, s.client.Update(t.Context(), &location))
	return s, wire
}

// bulk creates a namespace with large ConfigMaps, whose archive is uploaded in several parts, before small ones.
func (s *site) bulk(configMaps, small int) string {
	s.t.Helper()
	namespace := s.workload(small)
	for i := range configMaps {
		data := make([]byte, 600<<10)
		_, _ = rand.Read(data) // never fails
		require.NoError(s.t, s.client.Create(s.t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("bulk-%02d", i)},
			BinaryData: map[string][]byte{"data": data},
		}))
	}
	return namespace
}

const storeFailed = "the object store failed, trying again for up to "

// TestAcceptFaults_BucketAwayFromRuns takes S3 away in the middle of backups and of a restore, and before the first
// call of others. Nothing fails or is attempted again, and each says so once.
func TestAcceptFaults_BucketAwayFromRuns(t *testing.T) {
	t.Parallel()
	s, wire := newWiredSite(t)
	notes := s.watchItems("200ms")
	completions := s.watchCompletions()
	server := s.serve(append(notes.args, "--concurrent-backups", "4", "--concurrent-restores", "2", "--restore-workers",
		"1")...)
	s.available()
	s.shop = s.workload(30)
	s.wholeBackup("")
	s.beginBackup("old")
	s.awaitBackup("old", velerov1.BackupPhaseCompleted)

	names := []string{"short", "long", "bulk", "late"}
	for name, shop := range map[string]string{"short": s.workload(40), "long": s.workload(80), "bulk": s.bulk(20, 100)} {
		s.beginBackupOf(name, shop)
	}
	s.beginRestore("back")
	notes.awaitItems(s, "back", 1)
	notes.awaitItems(s, "short", 1)
	notes.awaitItems(s, "bulk", 6)
	wire.refuse()
	s.beginBackupOf("late", s.workload(2))
	s.beginRestore("again")
	s.beginDeletion("old")
	for _, run := range []string{"backup=" + s.namespace + "/short", "backup=" + s.namespace + "/bulk", "backup=" +
		s.namespace + "/late",
		"restore=" + s.namespace + "/back", "restore=" + s.namespace + "/again", "backup=old "} {
		server.awaitLine(storeFailed+"5m0s", run)
	}
	require.NoError(t, wire.connect())

	s.awaitCompleted(names)
	completions.require(t, append(names, "whole", "old"))
	for _, name := range names {
		var b velerov1.Backup
		require.NoError(t, s.client.Get(t.Context(), s.key(name), &b))
		require.Equal(t, "1", b.Annotations["cleat.dev/attempt"], name)
		s.requireWhole(&b)
		for _, line := range []string{storeFailed, "the object store answers again"} {
			require.LessOrEqual(t, strings.Count(s.must("backup", "logs", name), line), 1, name)
		}
	}
	log := s.must("backup", "logs", "bulk")
	require.Contains(t, log, storeFailed+"5m0s", "its archive was on its way")
	require.Contains(t, log, "the object store answers again")
	for _, name := range []string{"back", "again"} {
		s.checkRestore(name)
		var r velerov1.Restore
		require.NoError(t, s.client.Get(t.Context(), s.key(name), &r))
		require.Equal(t, "1", r.Annotations["cleat.dev/attempt"], name)
	}
	s.checkDeleted("old")
}

// TestAcceptFaults_BucketAwayForTooLong takes S3 away for longer than runs wait for it.
func TestAcceptFaults_BucketAwayForTooLong(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[string]string{
		"2s": "the object store has not answered for 2s, see --store-outage-timeout",
		"0":  "nothing answers",
	} {
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			s, wire := newWiredSite(t)
			notes := s.watchItems("0s")
			server := s.serve(append(notes.args, "--store-outage-timeout", timeout)...)
			s.available()
			s.shop = s.workload(5)
			s.wholeBackup("")
			notes.hold()
			s.beginBackupOf("fails", s.shop)
			notes.awaitItems(s, "fails", 1)
			wire.refuse()
			notes.release()
			b := s.awaitBackup("fails", velerov1.BackupPhaseFailed)
			require.Contains(t, b.Status.FailureReason, "ObjectStore(cleat.dev/s3)")
			require.Contains(t, b.Status.FailureReason, want)
			s.beginRestore("fails")
			var r velerov1.Restore
			s.eventually("the restore has failed", func(ctx context.Context) (bool, error) {
				err := s.client.Get(ctx, s.key("fails"), &r)
				return r.Status.Phase == velerov1.RestorePhaseFailed, err
			})
			require.Contains(t, r.Status.FailureReason, want)
			if timeout == "0" {
				require.NotContains(t, server.log.String(), storeFailed)
			}
			require.NoError(t, wire.connect())
			s.eventually("what the backup has left is removed", func(ctx context.Context) (bool, error) {
				err := s.client.Get(ctx, s.key("fails"), b)
				return b.Annotations["cleat.dev/partial-data"] == "", err
			})
			require.NotContains(t, s.files("backups/fails"), "fails.tar.gz")
		})
	}
}
