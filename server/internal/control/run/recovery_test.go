package run_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func TestRecoveryFailsWhatNoControllerTakesUp(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	phases := run.AllBackupPhases()
	for i, phase := range phases {
		c.Add(t, controllertest.NewBackup("b-"+string(rune('a'+i)), controllertest.InPhase(phase)))
	}
	c.Add(t,
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "running"},
			Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseInProgress}},
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "waiting"}},
	)
	r := run.Recovery{Cluster: c.Cluster, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	require.NoError(t, r.Run(t.Context()))
	require.Equal(t, velerov1.BackupPhaseInProgress, c.Backup(t, "b-e").Status.Phase, "its controller takes it up")
	r.Backups, r.Restores = true, true
	require.NoError(t, r.Run(t.Context()))

	for i, phase := range phases {
		b := c.Backup(t, "b-"+string(rune('a'+i)))
		if phase != velerov1.BackupPhaseInProgress {
			require.Equal(t, phase, b.Status.Phase, "the other phases are continued by their controllers")
			require.False(t, run.HasPartialData(b))
			continue
		}
		require.Equal(t, velerov1.BackupPhaseFailed, b.Status.Phase)
		require.Equal(t, `found a backup with status "InProgress" during the server starting, mark it as "Failed"`,
			b.Status.FailureReason)
		require.Equal(t, controllertest.Noon().Unix(), b.Status.CompletionTimestamp.Unix())
		require.True(t, run.HasPartialData(b), "its files have yet to be deleted")
	}
	var running, waiting velerov1.Restore
	require.NoError(t, c.Get(t.Context(), c.Request("running").NamespacedName, &running))
	require.Equal(t, velerov1.RestorePhaseFailed, running.Status.Phase)
	require.Equal(t, `found a restore with status "InProgress" during the server starting, mark it as "Failed"`,
		running.Status.FailureReason)
	require.NoError(t, c.Get(t.Context(), c.Request("waiting").NamespacedName, &waiting))
	require.Empty(t, waiting.Status.Phase)
}

// TestAcceptFaults_RecoveryPassesUnwritable has a backup that the API server refuses to write. The recovery continues
// with the others.
func TestAcceptFaults_RecoveryPassesUnwritable(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/backups/bad") {
				return next.RoundTrip(r)
			}
			body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"not to be touched"}`
			return &http.Response{
				StatusCode: http.StatusUnprocessableEntity, Request: r, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{"Content-Type": {"application/json"}},
			}, nil
		})
	})
	inProgress := controllertest.InPhase(velerov1.BackupPhaseInProgress)
	c.Add(t, controllertest.NewBackup("bad", inProgress), controllertest.NewBackup("good", inProgress))
	r := run.Recovery{Cluster: c.Cluster, Backups: true, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	require.NoError(t, r.Run(t.Context()))
	require.Equal(t, velerov1.BackupPhaseInProgress, c.Backup(t, "bad").Status.Phase)
	require.Equal(t, velerov1.BackupPhaseFailed, c.Backup(t, "good").Status.Phase)
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
