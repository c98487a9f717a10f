package main_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAScheduleDoesNotPileUpBehindASlowQueue has a schedule that is due each second, while the only place of the queue is
// taken: it makes one backup, skips all others and says so, and goes on once that one has ended.
func TestAScheduleDoesNotPileUpBehindASlowQueue(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(2)
	server := s.serve()
	s.available()
	s.inTheMiddle(g, "slow")
	require.NoError(t, s.client.Create(t.Context(), &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "often"},
		Spec: velerov1.ScheduleSpec{Schedule: "@every 1s", Template: velerov1.BackupSpec{
			IncludedNamespaces: []string{s.shop}, StorageLocation: "default",
		}},
	}))
	skips := regexp.MustCompile(`the backup that is due is skipped.* phase=Queued`)
	s.eventually("three were skipped", func(context.Context) (bool, error) {
		return len(skips.FindAllString(server.log.String(), -1)) >= 3, nil
	})
	made := s.scheduled()
	require.Len(t, made, 1)
	require.Equal(t, velerov1.BackupPhaseQueued, made[0].Status.Phase)
	var schedule velerov1.Schedule
	require.NoError(t, s.client.Get(t.Context(), s.key("often"), &schedule))
	require.True(t, schedule.Status.LastSkipped.After(schedule.Status.LastBackup.Time))

	// The server is killed, and the next one finds the place free.
	server.kill()
	g.disarm()
	s.serve()
	s.checkBackup("slow")
	s.awaitBackup(made[0].Name, velerov1.BackupPhaseCompleted)
	s.eventually("it goes on", func(context.Context) (bool, error) { return len(s.scheduled()) >= 3, nil })
	unfinished := 0
	for _, b := range s.scheduled() {
		require.True(t, strings.HasPrefix(b.Name, "often-"))
		switch b.Status.Phase {
		case "", velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseInProgress:
			unfinished++
		}
	}
	require.LessOrEqual(t, unfinished, 1)
}

// scheduled are the backups that the schedule "often" has made.
func (s *site) scheduled() []velerov1.Backup {
	s.t.Helper()
	var list velerov1.BackupList
	require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: "often"}))
	return list.Items
}
