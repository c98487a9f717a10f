package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

func inAttempt(b *velerov1.Backup, attempt int) *velerov1.Backup {
	run.Claim{By: "me", Attempt: attempt}.Set(b)
	return b
}

func startOf(name string) operation.Start {
	return operation.Start{Action: "a.io/copy", Item: framework.ResourceIdentifier{Resource: "pods", Namespace: "shop",
		Name: name}, Sent: []byte(`{}`)}
}

func TestOperationsOfTheFormerAttemptAreFollowed(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	journals := operation.NewJournals(api, client.Reader(api), "velero", signing.Fixed(signing.NewKey([]byte("of tests"))),
		hclog.NewNullLogger())
	monitor, err := operation.NewMonitor(busy{}, operation.Options{Log: hclog.NewNullLogger()}) // it does not run
	require.NoError(t, err)
	runs := run.NewRuns(run.RunsOptions{Kind: "backup", Attempts: 3, Lost: t.Context()})
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	b.UID = "u-1"
	active := runs.Begin(t.Context(), b.UID)
	defer active.End()
	journal, group, err := active.FollowOperations(journals, monitor, run.OwnerOfBackup(b), inAttempt(b, 1), time.Hour)
	require.NoError(t, err)
	require.Zero(t, group.Counts())
	for _, name := range []string{"known", "lost"} {
		entry, err := journal.Begin(t.Context(), startOf(name))
		require.NoError(t, err)
		if name == "known" {
			entry.End("op-1", nil)
		}
	}
	require.NoError(t, journal.Started(t.Context(), startOf("without a key"), "op-2"))

	again := runs.Begin(t.Context(), b.UID)
	defer again.End()
	journal, group, err = again.FollowOperations(journals, monitor, run.OwnerOfBackup(b), inAttempt(b, 2), time.Hour)
	require.NoError(t, err)
	require.Len(t, journal.Starts(), 3)
	all, _ := group.Operations()
	require.Len(t, all, 1, "the others are not those of this attempt, or not known")
	require.Equal(t, "op-1", all[0].ID)
	require.WithinDuration(t, time.Now(), all[0].Created, time.Hour)
}

func TestOperationsAreCancelledWithTheirRun(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]bool{run.ErrCancelled: true, run.ErrDeleted: true, run.ErrShutdown: false,
		run.ErrTakenUp: false, errors.New("other"): false, nil: false} {
		monitor, err := operation.NewMonitor(busy{}, operation.Options{Log: hclog.NewNullLogger()}) // it does not run
		require.NoError(t, err)
		active := run.NewRuns(run.RunsOptions{Kind: "backup", Lost: t.Context()}).Begin(t.Context(), "u-1")
		b := inAttempt(controllertest.NewBackup("b"), 1)
		_, group, err := active.FollowOperations(nil, monitor, run.OwnerOfBackup(b), b, 0)
		require.NoError(t, err)
		group.Add(operation.Operation{Action: "a.io/copy", ID: "op-1", Status: operation.Status{Phase: operation.New}})
		ended := make(chan struct{})
		context.AfterFunc(active.Ctx, func() { close(ended) })
		active.Cancel(cause)
		<-ended
		if want {
			require.Eventually(t, func() bool { return group.Followed()[0].Cancelled == cause.Error() }, 5*time.Minute, 1e6)
		} else {
			require.Empty(t, group.Followed()[0].Cancelled, "%v", cause)
		}
		active.End()
	}
}
