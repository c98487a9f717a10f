package install_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// TestAcceptTrust_LockedBucketForVelero has the real Velero find and restore a backup in a bucket with Object Lock.
func TestAcceptTrust_LockedBucketForVelero(t *testing.T) {
	t.Parallel()
	s, v := newVeleroSite(t)
	stopped := veleroDeployment(s, "velero/velero:"+velero.Version, "server") // Velero reads it before a restore
	stopped.Spec.Replicas = new(int32)
	require.NoError(t, s.Client.Create(t.Context(), stopped))
	s.Shop = s.Workload(3)
	addMarker(s)
	bucket := s.Cluster.NewLockingBucket(t, "locked", nil)
	s.BucketDir = filepath.Join(s.Cluster.S3.Dir, bucket)
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.Provider, l.Spec.ObjectStorage.Bucket = "cleat.dev/s3", bucket
		l.Spec.Config["objectLockMode"] = "COMPLIANCE"
		l.Spec.Config["objectLockFor"] = "1h"
	})
	server := s.Serve(site.Often...)
	s.Available()
	s.BeginBackup("b")
	s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	server.Kill()
	require.NoError(t, s.Client.Delete(t.Context(), s.Named("b")))
	s.AwaitGone(new(velerov1.Backup), "b")

	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.Provider, l.Annotations = "aws", nil
		l.Status.LastSyncedTime = nil // Velero looks at once when it starts, and then each minute
		delete(l.Spec.Config, "objectLockMode")
		delete(l.Spec.Config, "objectLockFor")
	})
	serveVelero(s, v)
	s.AwaitNames("b")
	s.Available() // Velero refuses a restore otherwise
	_, err := v.Run(t.Context(), "restore", "create", "r", "--from-backup", "b", "--namespace-mappings",
		fmt.Sprintf("%s:%s-copy", s.Shop, s.Shop), "--wait")
	require.NoError(t, err)
	var r velerov1.Restore
	require.NoError(t, s.Client.Get(t.Context(), s.Key("r"), &r))
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, "%s %v", r.Status.FailureReason,
		r.Status.ValidationErrors)
	var restored corev1.Secret
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Shop + "-copy", Name: marker}, &restored))
	require.Equal(t, marker, string(restored.Data["password"]))
}
