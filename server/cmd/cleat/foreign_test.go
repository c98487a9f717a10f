package main_test

import (
	"path/filepath"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// createInProgress creates a backup that is InProgress until the test ends it: no server has started it, and none can take it
// up, because its location is never available.
func (s *site) createInProgress(b *velerov1.Backup) {
	s.t.Helper()
	away := &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "away"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "cleat.dev/file", Config: map[string]string{"path": filepath.Join(s.bucketDir, "none")},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "none"}},
		},
		Status: velerov1.BackupStorageLocationStatus{Phase: velerov1.BackupStorageLocationPhaseUnavailable},
	}
	require.NoError(s.t, client.IgnoreAlreadyExists(s.client.Create(s.t.Context(), away)))
	b.Namespace, b.Spec.StorageLocation, b.Status.Phase = s.namespace, away.Name, velerov1.BackupPhaseInProgress
	require.NoError(s.t, s.client.Create(s.t.Context(), b))
}
