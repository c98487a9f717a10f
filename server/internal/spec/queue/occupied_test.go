package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// TestOperationsOccupyTheirNamespaces is the rule: a backup that waits for operations takes the namespaces that they
// work on, as they are recorded. It holds no slot.
func TestOperationsOccupyTheirNamespaces(t *testing.T) {
	t.Parallel()
	const waits = velerov1.BackupPhaseWaitingForPluginOperations
	for name, test := range map[string]struct {
		phase    velerov1.BackupPhase
		occupied *string
		want     []string
		absent   bool
	}{
		"some": {phase: waits, occupied: new("a,c"), want: []string{"a", "c"}},
		"partially failed": {phase: velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed, occupied: new("a"),
			want: []string{"a"}},
		"none":               {phase: waits, occupied: new(""), absent: true},
		"not recorded":       {phase: waits, absent: true},
		"in its run":         {phase: velerov1.BackupPhaseInProgress, occupied: new("a"), absent: true},
		"finalizing":         {phase: velerov1.BackupPhaseFinalizing, occupied: new("a"), absent: true},
		"ended":              {phase: velerov1.BackupPhaseCompleted, occupied: new("a"), absent: true},
		"commas of a person": {phase: waits, occupied: new(",a,,"), want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: types.UID("u")}}
			b.Status.Phase = test.phase
			if test.occupied != nil {
				b.Annotations = map[string]string{OccupiedAnnotation: *test.occupied}
			}
			line := NewLine([]*velerov1.Backup{b})
			require.Equal(t, test.phase == velerov1.BackupPhaseInProgress, len(line.Running) == 1)
			snapshot := new(Resolver).Snapshot(line, []string{"a", "b"}, 3, time.Now())
			require.Equal(t, max(0, 3-len(line.Running)), snapshot.Free(), "it holds no slot")
			if test.absent {
				require.Empty(t, snapshot.Operating)
				return
			}
			require.Len(t, snapshot.Operating, 1)
			require.Equal(t, test.want, snapshot.Operating[0].Namespaces)
			require.False(t, snapshot.Operating[0].AllNamespaces)
			require.Equal(t, queueadmission.ClusterScopeNone, snapshot.Operating[0].ClusterScope)
		})
	}
}

func TestOccupyFollowsThePhase(t *testing.T) {
	t.Parallel()
	b := &velerov1.Backup{}
	Occupy(b, []string{"a"})
	require.NotContains(t, b.Annotations, OccupiedAnnotation)
	b.Status.Phase = velerov1.BackupPhaseWaitingForPluginOperations
	Occupy(b, []string{"", "a", "b"})
	require.Equal(t, "a,b", b.Annotations[OccupiedAnnotation])
	b.Status.Phase = velerov1.BackupPhaseFinalizing
	Occupy(b, []string{"a"})
	require.NotContains(t, b.Annotations, OccupiedAnnotation)
}
