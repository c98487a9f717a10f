package verification

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/bucket/verify"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/versioning"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// verified returns a change of a backup whose last verification ended some time before noon.
func verified(outcome velerov1.VerificationOutcome, ago time.Duration) func(*velerov1.Backup) {
	return known(velerov1.Verification{Last: result(velerov1.VerifyFiles, outcome, ago)})
}

func result(
	depth velerov1.VerificationDepth, outcome velerov1.VerificationOutcome, ago time.Duration,
) *velerov1.VerificationResult {
	return &velerov1.VerificationResult{Depth: depth, Outcome: outcome, Ended: metav1.NewTime(noon.Add(-ago))}
}

func known(v velerov1.Verification) func(*velerov1.Backup) {
	return annotated(velerov1.VerificationAnnotation, v)
}

func annotated(key string, value any) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) {
		text, _ := json.Marshal(value)
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, key, string(text))
	}
}

type changes []func(*velerov1.Backup)

func TestDue(t *testing.T) {
	t.Parallel()
	after, weekly := Settings{After: true, Depth: velerov1.VerifyFiles},
		Settings{Every: 168 * time.Hour, Depth: velerov1.VerifyFiles}
	both := Settings{After: true, Every: 168 * time.Hour, Depth: velerov1.VerifyFiles}
	phase := func(p velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Status.Phase = p }
	}
	request := annotated(velerov1.VerifyAnnotation, velerov1.VerifyRequest{ID: "r", Depth: velerov1.VerifyQuick})
	for name, tt := range map[string]struct {
		settings Settings
		change   changes
		request  string
		depth    velerov1.VerificationDepth // of the one that is due; empty for none
		wait     time.Duration
	}{
		"nothing is set":          {},
		"after":                   {settings: after, depth: velerov1.VerifyFiles},
		"after, verified":         {settings: after, change: changes{verified("Intact", time.Hour)}},
		"after, in progress":      {settings: after, change: changes{phase("InProgress")}},
		"after, failed":           {settings: after, change: changes{phase("Failed")}},
		"after, being deleted":    {settings: after, change: changes{phase("Deleting")}},
		"after, partially failed": {settings: after, change: changes{phase("PartiallyFailed")}, depth: "files"},
		"weekly, never":           {settings: weekly, wait: 167 * time.Hour},
		"weekly, verified": {settings: weekly, change: changes{verified("Intact", 100*time.Hour)},
			wait: 68 * time.Hour},
		"weekly, long ago": {settings: weekly, change: changes{verified("Damaged", 200*time.Hour)}, depth: "files"},
		"after, quick": {settings: after, change: changes{known(velerov1.Verification{
			Last: result("quick", "Intact", time.Hour)})}, depth: "files"},
		"weekly, quick since": {settings: weekly, change: changes{known(velerov1.Verification{
			Last: result("quick", "Intact", time.Hour), Before: result("files", "Intact", 100*time.Hour)})},
			wait: 68 * time.Hour},
		"weekly, data": {settings: weekly, change: changes{known(velerov1.Verification{
			Last: result("data", "Intact", 100*time.Hour)})}, wait: 68 * time.Hour},
		"weekly, in the future": {settings: weekly, change: changes{verified("Intact", -9999*time.Hour)},
			wait: 168 * time.Hour},
		"both, not looked at": {settings: both, change: changes{verified("Failed", time.Minute)},
			wait: 9 * time.Minute},
		"both, not looked at long":   {settings: both, change: changes{verified("Failed", time.Hour)}, depth: "files"},
		"requested":                  {change: changes{request}, depth: "quick", request: "r"},
		"requested, of a failed one": {change: changes{request, phase("Failed")}, depth: "quick", request: "r"},
		"requested, in progress":     {change: changes{request, phase("InProgress")}},
		"requested, unknown depth": {settings: after, change: changes{annotated(velerov1.VerifyAnnotation,
			velerov1.VerifyRequest{ID: "r", Depth: "everything"})}, depth: "files", request: "r"},
		"requested, no JSON": {settings: after, change: changes{func(b *velerov1.Backup) {
			metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.VerifyAnnotation, "{")
		}}, depth: "files"},
		"interrupted": {change: changes{known(velerov1.Verification{
			Running: &velerov1.VerificationRun{Depth: velerov1.VerifyData}})}, depth: "data"},
		"expired": {settings: after, change: changes{func(b *velerov1.Backup) {
			b.Status.Expiration = new(metav1.NewTime(noon))
		}}},
		"a dry run": {settings: after, change: changes{func(b *velerov1.Backup) {
			metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.DryRunAnnotation, "true")
		}}},
		"no JSON": {settings: after, change: changes{func(b *velerov1.Backup) {
			metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.VerificationAnnotation, "{")
		}}, depth: "files"},
	} {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 2}}
		b.Status.Phase = velerov1.BackupPhaseCompleted
		b.Status.CompletionTimestamp = new(metav1.NewTime(noon.Add(-time.Hour)))
		for _, change := range tt.change {
			change(b)
		}
		r := &Controller{Settings: tt.settings, Now: func() time.Time { return noon }}
		due, wait := r.due(b)
		require.Equal(t, tt.wait, wait, name)
		if tt.depth == "" {
			require.Nil(t, due, name)
			continue
		}
		require.NotNil(t, due, name)
		require.Equal(t, tt.depth, due.Depth, name)
		require.Equal(t, tt.request, due.Request, name)
	}
}

// repositories answer by the namespace.
type repositories map[string]error

// Check implements Repositories. Snapshot 6 is missing.
func (r repositories) Check(_ context.Context, _, _, namespace string, snapshots []string, _ bool) (Checked, error) {
	checked := Checked{Warnings: []string{"it is old"}, Looked: namespace != "older"}
	if slices.Contains(snapshots, "6") {
		checked.Missing = []string{"6"}
	}
	return checked, r[namespace]
}

func TestVolumesAreCheckedWithTheirRepositories(t *testing.T) {
	t.Parallel()
	d := &trust.Document{Volumes: []trust.Volume{
		{Kind: trust.Repository, Of: "claim whole/a", Snapshot: "1", By: "cleat.dev/kopia", Namespace: "whole"},
		{Kind: trust.Repository, Of: "claim gone/a", Snapshot: "2", By: "cleat.dev/kopia", Namespace: "gone"},
		{Kind: trust.Repository, Of: "claim bad/a", Snapshot: "3", By: "cleat.dev/kopia", Namespace: "bad"},
		{Kind: trust.Repository, Of: "claim vendor/a", Snapshot: "4", By: "example.io/mover", Namespace: "vendor"},
		{Kind: trust.Repository, Of: "claim whole/c", Snapshot: "6", By: "cleat.dev/kopia", Namespace: "whole"},
		{Kind: trust.Repository, Of: "claim older/a", Snapshot: "7", By: "cleat.dev/kopia", Namespace: "older"},
		{Kind: trust.CSI, Of: "claim whole/b", Snapshot: "5"},
	}}
	all := repositories{"gone": versioning.ErrNotFound, "bad": errors.New("blob x is missing"),
		"vendor": volumes.ErrNoMover}
	r := &verify.Report{}
	look := func(r *verify.Report) error {
		return lookAtVolumes(t.Context(), all, nil, &velerov1.Backup{}, d, false, r, func(string) {})
	}
	require.NoError(t, look(r))
	require.Equal(t, []velerov1.VerificationFinding{
		{Kind: velerov1.FindingChanged, Of: "claim bad/a",
			Message: "the repository that has the data of the volume is damaged: blob x is missing"},
		{Kind: velerov1.FindingMissing, Of: "claim gone/a",
			Message: "the repository that has the data of the volume is missing"},
		{Kind: velerov1.FindingMissing, Of: "claim whole/c",
			Message: "snapshot 6, which has the data of the volume, is missing in the repository of namespace whole"},
	}, r.Findings)
	require.Contains(t, r.Notes, "the snapshots of 1 volumes were not looked for: data mover cleat.dev/kopia cannot")
	require.Contains(t, r.Notes, "1 snapshots at storage systems were not looked at: that takes a restore")
	require.Contains(t, r.Notes, "the repository of namespace whole: it is old")
	all["bad"] = versioning.ErrUnavailable
	require.ErrorIs(t, look(&verify.Report{}), versioning.ErrUnavailable)
}
