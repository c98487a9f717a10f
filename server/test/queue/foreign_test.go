package queue_test

import (
	"path/filepath"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// createInProgress creates a backup that is InProgress until the test ends it: no server has started it, and none can
// take it up, because its location is never available.
func createInProgress(s *site.Site, b *velerov1.Backup) {
	s.T.Helper()
	away := &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "away"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "cleat.dev/file", Config: map[string]string{"path": filepath.Join(s.BucketDir, "none")},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "none"}},
		},
		Status: velerov1.BackupStorageLocationStatus{Phase: velerov1.BackupStorageLocationPhaseUnavailable},
	}
	require.NoError(s.T, client.IgnoreAlreadyExists(s.Client.Create(s.T.Context(), away)))
	b.Namespace, b.Spec.StorageLocation, b.Status.Phase = s.Namespace, away.Name, velerov1.BackupPhaseInProgress
	createWorkedOn(s, b)
}

// createWorkedOn creates a backup or restore and then writes its status, like a server that works on it: a status
// written by the creator does not count. In between the object has ended, so that no server begins it.
func createWorkedOn(s *site.Site, object client.Object) {
	s.T.Helper()
	created, _ := object.DeepCopyObject().(client.Object)
	switch o := created.(type) {
	case *velerov1.Backup:
		o.Status = velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}
	case *velerov1.Restore:
		o.Status = velerov1.RestoreStatus{Phase: velerov1.RestorePhaseFailedValidation}
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), created))
	object.SetResourceVersion(created.GetResourceVersion())
	require.NoError(s.T, s.Client.Update(s.T.Context(), object))
}
