package run_test

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

func TestProgressIsWritten(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	p := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(),
		func(cause error) { t.Error(cause) })
	p.Set(3, 10)
	var there velerov1.Backup
	require.Eventually(t, func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(b), &there) == nil && there.Status.Progress != nil
	}, 5*time.Minute, 50e6)
	newest := p.End()
	require.Equal(t, velerov1.BackupProgress{TotalItems: 10, ItemsBackedUp: 3}, *there.Status.Progress)
	require.Equal(t, velerov1.BackupPhaseInProgress, there.Status.Phase)
	require.Equal(t, there.ResourceVersion, newest.ResourceVersion,
		"so that the next write of the phase meets no conflict")
}

// busy is a set of actions whose operations do not end, except one that has failed.
type busy struct{ operation.Plugins }

func (busy) Declared(*operation.Owner, string) operation.Limits { return operation.Limits{} }

// startedOperations returns a group of four operations: one has failed, one has completed.
func startedOperations(t *testing.T, owner *operation.Owner) *operation.Group {
	t.Helper()
	m, err := operation.NewMonitor(busy{}, operation.Options{Log: hclog.NewNullLogger()}) // it does not run
	require.NoError(t, err)
	group := m.Begin(owner, nil, 0)
	for id, phase := range map[string]operation.Phase{"a": operation.New, "b": operation.InProgress,
		"c": operation.Completed, "d": operation.Failed} {
		group.Add(operation.Operation{Action: "a.io/copy", ID: id, Status: operation.Status{Phase: phase}})
	}
	return group
}

func TestProgressCountsOperations(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	want := operation.Counts{Attempted: 4, Completed: 1, Failed: 1}
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	ofBackup := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(),
		func(cause error) { t.Error(cause) })
	ofBackup.Operations(startedOperations(t, run.OwnerOfBackup(b)))
	require.Eventually(t, func() bool {
		var there velerov1.Backup
		return c.Get(t.Context(), client.ObjectKeyFromObject(b), &there) == nil && run.OperationsOfBackup(&there) == want
	}, 5*time.Minute, 50e6)
	require.Equal(t, want, run.OperationsOfBackup(ofBackup.End()))

	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "r"},
		Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseInProgress}}
	c.Add(t, r)
	ofRestore := run.Follow(t.Context(), c.Cluster, r, "itemsRestored", hclog.NewNullLogger(),
		func(cause error) { t.Error(cause) })
	ofRestore.Operations(startedOperations(t, run.OwnerOfRestore(r)))
	require.Eventually(t, func() bool {
		var there velerov1.Restore
		return c.Get(t.Context(), client.ObjectKeyFromObject(r), &there) == nil && run.OperationsOfRestore(&there) == want
	}, 5*time.Minute, 50e6)
	require.Equal(t, want, run.OperationsOfRestore(ofRestore.End()))
}

func TestProgressReportsADeletedObject(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
			c.Add(t, b)
			require.NoError(t, c.Delete(t.Context(), b.DeepCopy()))
			if replace {
				c.Add(t, controllertest.NewBackup("b"))
			}
			deleted := make(chan error, 1)
			p := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(),
				func(cause error) { deleted <- cause })
			p.Set(1, 2)
			require.ErrorIs(t, <-deleted, run.ErrDeleted)
			p.End()
			var there velerov1.Backup
			err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &there)
			if replace {
				require.NoError(t, err)
				require.Nil(t, there.Status.Progress, "another backup of that name is not touched")
			}
		})
	}
}

func TestProgressEndsWhenTheRunIsTakenUp(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	run.Claim{By: "one", Attempt: 1}.Set(b)
	c.Add(t, b)
	takenUp := b.DeepCopy()
	run.Claim{By: "two", Attempt: 2}.Set(takenUp)
	require.NoError(t, c.Update(t.Context(), takenUp))

	ended := make(chan error, 1)
	p := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(),
		func(cause error) { ended <- cause })
	p.Set(1, 2)
	require.ErrorIs(t, <-ended, run.ErrTakenUp)
	require.Equal(t, "one", run.ClaimOf(p.End()).By, "the state is not that of the other process")
	require.Nil(t, c.Backup(t, "b").Status.Progress)
}

func TestProgressSurvivesEdits(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	edited := b.DeepCopy()
	edited.Labels = map[string]string{"edited": "yes"}
	require.NoError(t, c.Update(t.Context(), edited))
	p := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(),
		func(cause error) { t.Error(cause) })
	p.Set(1, 2)
	require.Eventually(t, func() bool { return c.Backup(t, "b").Status.Progress != nil }, 5*time.Minute, 50e6)
	newest := p.End()
	require.Equal(t, "yes", newest.Labels["edited"])
	require.Equal(t, c.Backup(t, "b").ResourceVersion, newest.ResourceVersion)
}
