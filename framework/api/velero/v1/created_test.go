package v1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestPhaseOfWhatWasCreatedWithAStatus(t *testing.T) {
	t.Parallel()
	deleted := &metav1.Time{Time: time.Unix(0, 0)}
	for _, test := range []struct {
		generation int64
		deleted    *metav1.Time
		phase      v1.BackupPhase
		want       v1.BackupPhase
	}{
		{1, nil, "", v1.BackupPhaseNew},
		{1, nil, v1.BackupPhaseInProgress, v1.BackupPhaseNew},
		{1, nil, v1.BackupPhaseDeleting, v1.BackupPhaseNew},
		{1, nil, v1.BackupPhaseCompleted, v1.BackupPhaseCompleted},
		{2, deleted, v1.BackupPhaseFinalizing, v1.BackupPhaseNew},
		{2, nil, v1.BackupPhaseFinalizing, v1.BackupPhaseFinalizing},
		{3, deleted, v1.BackupPhaseInProgress, v1.BackupPhaseInProgress},
		{0, nil, v1.BackupPhaseQueued, v1.BackupPhaseQueued},
	} {
		meta := metav1.ObjectMeta{Generation: test.generation, DeletionTimestamp: test.deleted}
		require.Equal(t, test.want, v1.PhaseOf(&v1.Backup{ObjectMeta: meta, Status: v1.BackupStatus{Phase: test.phase}}),
			test)
	}
	restore := &v1.Restore{ObjectMeta: metav1.ObjectMeta{Generation: 1},
		Status: v1.RestoreStatus{Phase: v1.RestorePhaseFinalizing}}
	require.Equal(t, v1.RestorePhaseNew, v1.PhaseOfRestore(restore))
	restore.Generation = 2
	require.Equal(t, v1.RestorePhaseFinalizing, v1.PhaseOfRestore(restore))
}
