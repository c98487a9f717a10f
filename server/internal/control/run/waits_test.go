package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

func TestWaitsAreWrittenAndEndWithThePhase(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	list := waits.New()
	ctx := waits.With(t.Context(), list)
	p := run.Follow(ctx, c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(), func(cause error) { t.Error(cause) })
	annotated := func() *velerov1.Waits {
		shown, err := velerov1.WaitsOf(c.Backup(t, "b"))
		require.NoError(t, err)
		return shown
	}
	began := time.Now().Add(-time.Second) // the annotation has whole seconds
	first, second := waits.Begin(ctx, "the hooks of pod %s", "db"), waits.Begin(ctx, "webhook %q", "policy")
	second.Because("connection refused")
	var shown *velerov1.Waits
	require.Eventually(t, func() bool { // the first wait may be written before the second one begins
		shown = annotated()
		return shown != nil && len(shown.Oldest) == 2 && shown.Oldest[1].Because != ""
	}, 5*time.Minute, 50*time.Millisecond)
	require.WithinRange(t, shown.Oldest[0].Since.Time, began, time.Now())
	shown.Oldest[1].Since = shown.Oldest[0].Since
	require.Equal(t, &velerov1.Waits{Oldest: []velerov1.Wait{
		{For: "the hooks of pod db", Since: shown.Oldest[0].Since}, {For: `webhook "policy"`, Because: "connection refused",
			Since: shown.Oldest[0].Since},
	}}, shown)
	require.Nil(t, c.Backup(t, "b").Status.Progress, "there is no progress to write")

	first.End()
	require.Eventually(t, func() bool { shown := annotated(); return len(shown.Oldest) == 1 }, 5*time.Minute,
		50*time.Millisecond)
	p.Set(1, 2)
	require.Eventually(t, func() bool { return c.Backup(t, "b").Status.Progress != nil }, 5*time.Minute,
		50*time.Millisecond)
	require.NotNil(t, annotated())
	newest := p.End()
	require.NoError(t, c.AdvanceBackup(context.Background(), newest, func(b *velerov1.Backup) error {
		b.Status.Phase = velerov1.BackupPhaseFinalizing
		return nil
	}))
	require.Nil(t, annotated(), "the run does not wait any more, although it may not have had the time to say so")
}
