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
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// changeLocation changes the location of a site.
func (s *site) changeLocation(change func(*velerov1.BackupStorageLocation)) {
	s.t.Helper()
	var location velerov1.BackupStorageLocation
	require.NoError(s.t, s.client.Get(s.t.Context(), s.key("default"), &location))
	before := location.DeepCopy()
	change(&location)
	require.NoError(s.t, s.client.Patch(s.t.Context(), &location, client.MergeFrom(before)))
}

// TestAcceptHardening_BucketAwayAtStart takes the bucket away after a backup was admitted, while it is being started. The backup
// goes back to the queue, once, and completes when the bucket is back.
func TestAcceptHardening_BucketAwayAtStart(t *testing.T) {
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

	hit := g.arm(1, before, func(r *http.Request) bool { return r.URL.Path == "/version" }) // asked at each start of a backup
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
