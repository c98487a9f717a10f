package backups

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// refusing counts the writes that were refused.
type refusing struct{ refused int }

// MayStart implements Admissions.
func (*refusing) MayStart(context.Context, *velerov1.Backup) (bool, error) { return true, nil }

// Refused implements Admissions.
func (r *refusing) Refused(*velerov1.Backup, error) time.Duration {
	r.refused++
	return time.Minute
}

// The end of a run that the API server refuses is written later, without another run. If the backup is deleted first,
// its files are deleted.
func TestEndOfARunIsWrittenLater(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	claim := run.Claim{By: "this-process", Attempt: 1}
	inProgress := func(b *velerov1.Backup) {
		b.Status.Phase = velerov1.BackupPhaseInProgress
		b.Spec.StorageLocation = "default"
		claim.Set(b)
	}
	ended, gone := controllertest.NewBackup("ended", controllertest.Refused, inProgress), controllertest.NewBackup("gone",
		controllertest.Refused, inProgress)
	c.Add(t, controllertest.NewLocation("default"), ended, gone)
	stop := c.RefuseUpdates(t)
	defer stop()
	var text bytes.Buffer
	admissions := &refusing{}
	r := newBackups(c)
	r.Admissions, r.Stores, r.Log = admissions, controllertest.ClosedStores{},
		hclog.New(&hclog.LoggerOptions{Output: &text})
	r.Runs = run.NewRuns(run.RunsOptions{Kind: "backup", Lost: t.Context()})
	later := ctrl.Result{RequeueAfter: time.Minute}
	for _, b := range []*velerov1.Backup{ended, gone} {
		active := r.Runs.Begin(t.Context(), b.UID)
		result, err := r.finish(active, b.DeepCopy(), controllertest.InPhase(velerov1.BackupPhaseFinalizing), r.Log)
		active.End()
		require.NoError(t, err)
		require.Equal(t, later, result)
	}
	result, err := r.Reconcile(t.Context(), c.Request("ended"))
	require.NoError(t, err)
	require.Equal(t, later, result)
	require.Equal(t, 3, admissions.refused)

	require.NoError(t, c.Delete(t.Context(), gone))
	_, err = r.Reconcile(t.Context(), c.Request("gone"))
	require.NoError(t, err)
	require.Contains(t, text.String(), "could not delete the files of the deleted backup")

	stop()
	require.Eventually(t, func() bool {
		result, err := r.Reconcile(t.Context(), c.Request("ended"))
		require.NoError(t, err)
		return result.RequeueAfter == 0
	}, 10*time.Minute, 50*time.Millisecond)
	b := c.Backup(t, "ended")
	require.Equal(t, velerov1.BackupPhaseFinalizing, b.Status.Phase)
	require.Equal(t, claim, run.ClaimOf(b))
	require.Empty(t, r.ends.all)
}
