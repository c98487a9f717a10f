package main_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestScheduleDoesNotPileUpBehindSlowQueue has a schedule that is due each second while the only slot is in use: it
// creates one backup, skips all others with a message, and continues when that one has ended.
func TestScheduleDoesNotPileUpBehindSlowQueue(t *testing.T) {
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
	skips := regexp.MustCompile(`skipped the backup that is due.* phase=Queued`)
	s.eventually("three were skipped", func(context.Context) (bool, error) {
		return len(skips.FindAllString(server.log.String(), -1)) >= 3, nil
	})
	made := s.scheduled()
	require.Len(t, made, 1)
	require.Equal(t, velerov1.BackupPhaseQueued, made[0].Status.Phase)
	var schedule velerov1.Schedule
	require.NoError(t, s.client.Get(t.Context(), s.key("often"), &schedule))
	require.True(t, schedule.Status.LastSkipped.After(schedule.Status.LastBackup.Time))

	// The server is killed, and the next one finds the slot free.
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
		case "", velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
			velerov1.BackupPhaseInProgress:
			unfinished++
		}
	}
	require.LessOrEqual(t, unfinished, 1)
}

// TestScheduleCommands needs a server for the last part only.
func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	require.Equal(t, 6, s.runPage(t, "schedules", "", ""))

	require.Contains(t, s.must("schedule", "create", "yearly", "--schedule", "@yearly", "--include-namespaces", "shop",
		"--labels", "team=a",
		"--use-owner-references-in-backup", "--ttl", "1h", "--snapshot-volumes=false"),
		`Schedule "yearly" created successfully.`)
	s.must("schedule", "create", "often", "--schedule", "@every 1h", "--paused", "--skip-immediately")
	var yearly, often velerov1.Schedule
	require.NoError(t, s.client.Get(t.Context(), s.key("yearly"), &yearly))
	require.Equal(t, map[string]string{"team": "a"}, yearly.Labels)
	require.Equal(t, "@yearly", yearly.Spec.Schedule)
	require.Equal(t, []string{"shop"}, yearly.Spec.Template.IncludedNamespaces)
	require.Equal(t, time.Hour, yearly.Spec.Template.TTL.Duration)
	require.False(t, *yearly.Spec.Template.SnapshotVolumes)
	require.True(t, *yearly.Spec.UseOwnerReferencesInBackup)
	require.Nil(t, yearly.Spec.SkipImmediately)
	require.NoError(t, s.client.Get(t.Context(), s.key("often"), &often))
	require.True(t, often.Spec.Paused)
	require.True(t, *often.Spec.SkipImmediately)
	_, errs, err := s.run("schedule", "create", "often", "--schedule", "@daily")
	require.Error(t, err)
	require.Contains(t, errs, "a schedule named often exists")
	require.Contains(t, s.must("schedule", "create", "shown", "--schedule", "@daily", "-o", "yaml"), "kind: Schedule\n")
	_, errs, err = s.run("schedule", "pause")
	require.Error(t, err)
	require.Contains(t, errs, "say which schedules: their names, --selector or --all, one of them")

	require.Equal(t, "Schedule often is already paused, skip\nSchedule yearly paused successfully\n",
		s.must("schedule", "pause", "--all"))
	require.Equal(t, "Schedule yearly unpaused successfully\n", s.must("schedule", "unpause", "-l", "team=a"))
	require.Regexp(t, `(?m)^often .* true$`, s.must("schedule", "get"))
	require.Contains(t, s.must("schedule", "describe"), "\n\nName:         yearly\n")

	s.serve("--schedule-skip-immediately")
	s.eventually("the schedules are checked", func(context.Context) (bool, error) {
		return strings.Count(s.must("schedule", "get"), "Enabled") == 2, nil
	})
	require.Regexp(t, `Last Skipped: +\d{4}-`, s.must("schedule", "describe", "yearly"))
	require.Equal(t, "Schedule deleted: often\nSchedule deleted: yearly\n",
		s.must("schedule", "delete", "--all", "--confirm"))
	require.Equal(t, "No schedules found.\n", s.must("schedule", "delete", "--all", "--confirm"))
	require.Empty(t, s.scheduled())
}

// scheduled returns the backups of the schedule "often".
func (s *site) scheduled() []velerov1.Backup {
	s.t.Helper()
	var list velerov1.BackupList
	require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: "often"}))
	return list.Items
}
