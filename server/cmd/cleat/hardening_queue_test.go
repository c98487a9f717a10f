package main_test

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
)

// TestAcceptQueue_BucketAwayAtStart takes the bucket away after a backup was admitted, while it is being started.
// The backup goes back to the queue, once, and completes when the bucket is back.
func TestAcceptQueue_BucketAwayAtStart(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	s.changeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Second}
	})
	s.serve()
	s.available()
	var mu sync.Mutex
	var phases []string
	s.eachState(func(b *velerov1.Backup) {
		mu.Lock()
		defer mu.Unlock()
		if phase := string(b.Status.Phase); len(phases) == 0 || phases[len(phases)-1] != phase {
			phases = append(phases, phase)
		}
	})

	// asked at each start of a backup
	hit := g.arm(1, before, func(r *http.Request) bool { return r.URL.Path == "/version" })
	s.beginBackup("patient")
	s.awaitHit(hit)
	s.awaitBackup("patient", velerov1.BackupPhaseReadyToStart)
	require.NoError(t, os.Rename(s.bucketDir, s.bucketDir+"-away"))
	s.eventually("the location is unavailable", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.client.Get(ctx, s.key("default"), &location)
		return location.Status.Phase == velerov1.BackupStorageLocationPhaseUnavailable, err
	})
	g.disarm()
	s.eventually("the backup waits for its location", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		if err := s.client.Get(ctx, s.key("patient"), &b); err != nil {
			return false, err
		}
		require.NotEqual(t, velerov1.BackupPhaseFailedValidation, b.Status.Phase, b.Status.ValidationErrors)
		wait, err := velerov1.QueueWaitOf(&b)
		return b.Status.Phase == velerov1.BackupPhaseQueued && wait != nil && wait.Reason == "LocationUnavailable", err
	})
	require.NoError(t, os.Rename(s.bucketDir+"-away", s.bucketDir))
	s.requireWhole(s.awaitBackup("patient", velerov1.BackupPhaseCompleted))
	s.eventually("all states were seen", func(context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return phases[len(phases)-1] == "Completed", nil
	})
	require.Equal(t, " Queued ReadyToStart Queued ReadyToStart InProgress Finalizing Completed", strings.Join(phases, " "))
}

// gets matches the request with which a run looks at its backup before it stores it.
func gets(name string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/backups/"+name)
	}
}

// beginRefused creates a backup that can be made unwritable.
func (s *site) beginRefused(name string) {
	s.t.Helper()
	s.controller().Add(s.t, controllertest.NewBackup(name, controllertest.Refused, func(b *velerov1.Backup) {
		b.Spec.IncludedNamespaces = []string{s.shop}
	}))
}

// controller returns the site as the tests of controllers see it.
func (s *site) controller() *controllertest.Cluster {
	return &controllertest.Cluster{Cluster: &run.Cluster{Client: s.client, Live: s.client, Namespace: s.namespace}}
}

// TestAcceptQueue_UnwritableAtStart has an admitted backup whose start is refused. Its slot goes to others. When it
// can be written again, it waits for the one that overlaps it.
func TestAcceptQueue_UnwritableAtStart(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	s.serve("--concurrent-backups", "1")
	s.available()
	hit := g.arm(1, before, func(r *http.Request) bool { return r.URL.Path == "/version" })
	s.beginRefused("refused")
	s.awaitHit(hit)
	stop := s.controller().RefuseUpdates(t)
	defer stop()
	g.disarm()
	s.beginBackup("next")
	s.awaitBackup("next", velerov1.BackupPhaseCompleted)
	s.awaitBackup("refused", velerov1.BackupPhaseReadyToStart)

	hit = g.arm(1, before, gets("again"))
	s.beginBackup("again")
	s.awaitHit(hit)
	stop()
	s.eventually("the backup waits for the other", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		if err := s.client.Get(ctx, s.key("refused"), &b); err != nil {
			return false, err
		}
		require.NotEqual(t, velerov1.BackupPhaseInProgress, b.Status.Phase, "it runs beside the other")
		wait, err := velerov1.QueueWaitOf(&b)
		return wait != nil && wait.Reason == "NamespaceOverlap", err
	})
	s.awaitBackup("again", velerov1.BackupPhaseInProgress)
	g.disarm()
	s.requireWhole(s.awaitBackup("again", velerov1.BackupPhaseCompleted))
	s.requireWhole(s.awaitBackup("refused", velerov1.BackupPhaseCompleted))
}

// TestAcceptQueue_UnwritableAtEnd has a backup whose end is refused. Its slot goes to another one, and it ends when
// it can be written again, without a second run.
func TestAcceptQueue_UnwritableAtEnd(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	s.serve("--concurrent-backups", "1")
	s.available()
	hit := g.arm(1, before, gets("refused"))
	s.beginRefused("refused")
	s.awaitHit(hit)
	stop := s.controller().RefuseUpdates(t)
	defer stop()
	g.disarm()
	s.beginBackup("next")
	s.requireWhole(s.awaitBackup("next", velerov1.BackupPhaseCompleted))
	s.awaitBackup("refused", velerov1.BackupPhaseInProgress)
	stop()
	b := s.awaitBackup("refused", velerov1.BackupPhaseCompleted)
	s.requireWhole(b)
	require.Equal(t, 1, velerov1.AttemptOf(b))
}
