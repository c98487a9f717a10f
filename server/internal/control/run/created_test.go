package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func TestDropCreatedStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		generation int64
		phase      string
		dryRun     bool
		keeps      bool
	}{
		"new":                           {generation: 1},
		"in progress":                   {generation: 1, phase: "InProgress"},
		"in progress, by a server":      {generation: 2, phase: "InProgress", keeps: true},
		"of a bucket":                   {generation: 1, phase: "Completed", keeps: true},
		"dry run":                       {generation: 1, phase: "FailedValidation", dryRun: true},
		"dry run, no phase":             {generation: 1, dryRun: true},
		"dry run, in progress":          {generation: 1, phase: "InProgress", dryRun: true},
		"dry run, taken up by a server": {generation: 2, phase: "FailedValidation", dryRun: true, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta := metav1.ObjectMeta{Name: "o", Generation: test.generation, Annotations: map[string]string{"kept": "yes",
				run.ClaimAnnotation: "x", velerov1.AttemptAnnotation: "3", velerov1.RehearsalsAnnotation: "x",
				velerov1.VerificationAnnotation: "x"}}
			if test.dryRun {
				meta.Annotations[velerov1.DryRunAnnotation] = velerov1.DryRunRequested
			}
			b := &velerov1.Backup{ObjectMeta: *meta.DeepCopy(),
				Status: velerov1.BackupStatus{Phase: velerov1.BackupPhase(test.phase), Errors: 7}}
			r := &velerov1.Restore{ObjectMeta: *meta.DeepCopy(),
				Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhase(test.phase), Errors: 7}}
			errors, claim := 0, run.Claim{Attempt: 1}
			if test.keeps {
				errors, claim = 7, run.Claim{By: "x", Attempt: 3}
			}
			run.DropCreatedStatus(b)
			run.DropCreatedStatus(r)
			require.Equal(t, errors, b.Status.Errors)
			require.Equal(t, errors, r.Status.Errors)
			require.Equal(t, claim, run.ClaimOf(b))
			require.Equal(t, claim, run.ClaimOf(r))
			require.Equal(t, test.keeps, b.Annotations[velerov1.RehearsalsAnnotation] != "")
			require.Equal(t, test.keeps, b.Annotations[velerov1.VerificationAnnotation] != "")
			require.Equal(t, "yes", r.Annotations["kept"])
			require.False(t, velerov1.IsAsCreated(b) || velerov1.IsAsCreated(r), "the change counts")
		})
	}
}

// TestAdvanceDryRunOfItsMaker begins a dry run as the command creates it, with a status and a claim of its creator.
func TestAdvanceDryRunOfItsMaker(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: "b",
			Annotations: map[string]string{velerov1.DryRunAnnotation: velerov1.DryRunRequested}},
		Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation,
			ValidationErrors: []string{"no server has begun it"}, Errors: 7},
	}
	run.Claim{By: "x", Attempt: 9}.Set(b)
	c.Add(t, b)
	require.True(t, run.MustDryRun(b, string(run.BackupPhase(b))))
	require.NoError(t, run.AdvanceDryRun(t.Context(), c.Cluster, b, func(b *velerov1.Backup) error {
		require.Empty(t, b.Status)
		require.Equal(t, run.Claim{Attempt: 1}, run.ClaimOf(b))
		b.Status.Phase = velerov1.BackupPhaseFailedValidation
		return nil
	}))
	require.Equal(t, velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}, c.Backup(t, "b").Status)
}
