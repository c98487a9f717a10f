package main_test

import (
	"path/filepath"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// createInProgress creates a backup that is InProgress until the test ends it: no server has started it, and none can
// take it up, because its location is never available.
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
	s.createWorkedOn(b)
}

// createWorkedOn creates a backup or restore and then writes its status, as a server does that works on it: one that
// its maker writes counts as none. In between it has ended, so that no server begins it.
func (s *site) createWorkedOn(object client.Object) {
	s.t.Helper()
	created, _ := object.DeepCopyObject().(client.Object)
	switch o := created.(type) {
	case *velerov1.Backup:
		o.Status = velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}
	case *velerov1.Restore:
		o.Status = velerov1.RestoreStatus{Phase: velerov1.RestorePhaseFailedValidation}
	}
	require.NoError(s.t, s.client.Create(s.t.Context(), created))
	object.SetResourceVersion(created.GetResourceVersion())
	require.NoError(s.t, s.client.Update(s.t.Context(), object))
}
