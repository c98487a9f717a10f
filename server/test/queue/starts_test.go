package queue_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptQueue_BucketAwayAtStart makes the bucket unavailable after a backup was admitted, while it is being
// started. The backup goes back to the queue, once, and completes when the bucket is available again.
func TestAcceptQueue_BucketAwayAtStart(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Second}
	})
	s.Serve()
	s.Available()
	var mu sync.Mutex
	var phases []string
	s.EachState(func(b *velerov1.Backup) {
		mu.Lock()
		defer mu.Unlock()
		phase := string(b.Status.Phase)
		if b.Name == "patient" && (len(phases) == 0 || phases[len(phases)-1] != phase) {
			phases = append(phases, phase)
		}
	})

	// Checked at each start of a backup.
	hit := g.Arm(1, site.Before, func(r *http.Request) bool { return r.URL.Path == "/version" })
	s.BeginBackup("patient")
	s.AwaitHit(hit)
	s.AwaitBackup("patient", velerov1.BackupPhaseReadyToStart)
	require.NoError(t, os.Rename(s.BucketDir, s.BucketDir+"-away"))
	// The start reads the location from the cache of the server, in which the queue has seen the change by then.
	s.BeginBackupOf("witness", "default")
	awaitLocation(s, "witness")
	g.Disarm()
	awaitLocation(s, "patient")
	require.NoError(t, os.Rename(s.BucketDir+"-away", s.BucketDir))
	s.RequireWhole(s.AwaitBackup("patient", velerov1.BackupPhaseCompleted))
	s.Eventually("all states were seen", func(context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return phases[len(phases)-1] == "Completed", nil
	})
	require.Equal(t, " Queued ReadyToStart Queued ReadyToStart InProgress Finalizing Completed", strings.Join(phases, " "))
}

// awaitLocation waits until a backup is queued because its location is not available.
func awaitLocation(s *site.Site, name string) {
	s.T.Helper()
	s.Eventually(name+" waits for its location", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		if err := s.Client.Get(ctx, s.Key(name), &b); err != nil {
			return false, err
		}
		require.NotEqual(s.T, velerov1.BackupPhaseFailedValidation, b.Status.Phase, b.Status.ValidationErrors)
		wait, err := velerov1.QueueWaitOf(&b)
		return b.Status.Phase == velerov1.BackupPhaseQueued && wait != nil && wait.Reason == "LocationUnavailable", err
	})
}

// gets matches the request with which a run reads its backup before it stores it.
func gets(name string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/backups/"+name)
	}
}

// beginRefused creates a backup that can be made unwritable.
func beginRefused(s *site.Site, name string) {
	s.T.Helper()
	controller(s).Add(s.T, controllertest.NewBackup(name, controllertest.Refused, func(b *velerov1.Backup) {
		b.Spec.IncludedNamespaces = []string{s.Shop}
	}))
}

// controller returns the site in the form for tests of controllers.
func controller(s *site.Site) *controllertest.Cluster {
	return &controllertest.Cluster{Cluster: &run.Cluster{Client: s.Client, Live: s.Client, Namespace: s.Namespace}}
}

// TestAcceptQueue_UnwritableAtStart has an admitted backup whose start is refused. Its slot goes to others. When it
// can be written again, it waits for the backup that overlaps it.
func TestAcceptQueue_UnwritableAtStart(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	s.Serve("--concurrent-backups", "1")
	s.Available()
	hit := g.Arm(1, site.Before, func(r *http.Request) bool { return r.URL.Path == "/version" })
	beginRefused(s, "refused")
	s.AwaitHit(hit)
	stop := controller(s).RefuseUpdates(t)
	defer stop()
	g.Disarm()
	s.BeginBackup("next")
	s.AwaitBackup("next", velerov1.BackupPhaseCompleted)
	s.AwaitBackup("refused", velerov1.BackupPhaseReadyToStart)

	hit = g.Arm(1, site.Before, gets("again"))
	s.BeginBackup("again")
	s.AwaitHit(hit)
	stop()
	s.Eventually("the backup waits for the other", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		if err := s.Client.Get(ctx, s.Key("refused"), &b); err != nil {
			return false, err
		}
		require.NotEqual(t, velerov1.BackupPhaseInProgress, b.Status.Phase, "it runs beside the other")
		wait, err := velerov1.QueueWaitOf(&b)
		return wait != nil && wait.Reason == "NamespaceOverlap", err
	})
	s.AwaitBackup("again", velerov1.BackupPhaseInProgress)
	g.Disarm()
	s.RequireWhole(s.AwaitBackup("again", velerov1.BackupPhaseCompleted))
	s.RequireWhole(s.AwaitBackup("refused", velerov1.BackupPhaseCompleted))
}

// TestAcceptQueue_UnwritableAtEnd has a backup whose end is refused. Its slot goes to another one, and it ends when
// it can be written again, without a second run.
func TestAcceptQueue_UnwritableAtEnd(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	s.Serve("--concurrent-backups", "1")
	s.Available()
	hit := g.Arm(1, site.Before, gets("refused"))
	beginRefused(s, "refused")
	s.AwaitHit(hit)
	stop := controller(s).RefuseUpdates(t)
	defer stop()
	g.Disarm()
	s.BeginBackup("next")
	s.RequireWhole(s.AwaitBackup("next", velerov1.BackupPhaseCompleted))
	s.AwaitBackup("refused", velerov1.BackupPhaseInProgress)
	stop()
	b := s.AwaitBackup("refused", velerov1.BackupPhaseCompleted)
	s.RequireWhole(b)
	require.Equal(t, 1, velerov1.AttemptOf(b))
}
