package queue_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestScheduleDoesNotPileUpBehindSlowQueue has a schedule that is due each second while the only slot is in use: it
// creates one backup, skips all others with a message, and continues when that one has ended.
func TestScheduleDoesNotPileUpBehindSlowQueue(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(2)
	server := s.Serve()
	s.Available()
	s.InTheMiddle(g, "slow")
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "often"},
		Spec: velerov1.ScheduleSpec{Schedule: "@every 1s", Template: velerov1.BackupSpec{
			IncludedNamespaces: []string{s.Shop}, StorageLocation: "default",
		}},
	}))
	skips := regexp.MustCompile(`skipped the backup that is due.* phase=Queued`)
	s.Eventually("three were skipped", func(context.Context) (bool, error) {
		return len(skips.FindAllString(server.Log.String(), -1)) >= 3, nil
	})
	made := scheduled(s)
	require.Len(t, made, 1)
	require.Equal(t, velerov1.BackupPhaseQueued, made[0].Status.Phase)
	var schedule velerov1.Schedule
	require.NoError(t, s.Client.Get(t.Context(), s.Key("often"), &schedule))
	require.True(t, schedule.Status.LastSkipped.After(schedule.Status.LastBackup.Time))

	// The server is killed, and the next one finds the slot free.
	server.Kill()
	g.Disarm()
	s.Serve()
	s.CheckBackup("slow")
	s.AwaitBackup(made[0].Name, velerov1.BackupPhaseCompleted)
	s.Eventually("it goes on", func(context.Context) (bool, error) { return len(scheduled(s)) >= 3, nil })
	unfinished := 0
	for _, b := range scheduled(s) {
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
	s := site.New(t, "cleat.dev/file")
	require.Equal(t, 6, s.RunPage(t, "schedules", "", ""))

	require.Contains(t, s.Must("schedule", "create", "yearly", "--schedule", "@yearly", "--include-namespaces", "shop",
		"--labels", "team=a",
		"--use-owner-references-in-backup", "--ttl", "1h", "--snapshot-volumes=false"),
		`Schedule "yearly" created successfully.`)
	s.Must("schedule", "create", "often", "--schedule", "@every 1h", "--paused", "--skip-immediately")
	var yearly, often velerov1.Schedule
	require.NoError(t, s.Client.Get(t.Context(), s.Key("yearly"), &yearly))
	require.Equal(t, map[string]string{"team": "a"}, yearly.Labels)
	require.Equal(t, "@yearly", yearly.Spec.Schedule)
	require.Equal(t, []string{"shop"}, yearly.Spec.Template.IncludedNamespaces)
	require.Equal(t, time.Hour, yearly.Spec.Template.TTL.Duration)
	require.False(t, *yearly.Spec.Template.SnapshotVolumes)
	require.True(t, *yearly.Spec.UseOwnerReferencesInBackup)
	require.Nil(t, yearly.Spec.SkipImmediately)
	require.NoError(t, s.Client.Get(t.Context(), s.Key("often"), &often))
	require.True(t, often.Spec.Paused)
	require.True(t, *often.Spec.SkipImmediately)
	_, errs, err := s.Run("schedule", "create", "often", "--schedule", "@daily")
	require.Error(t, err)
	require.Contains(t, errs, "a schedule named often exists")
	require.Contains(t, s.Must("schedule", "create", "shown", "--schedule", "@daily", "-o", "yaml"), "kind: Schedule\n")
	_, errs, err = s.Run("schedule", "pause")
	require.Error(t, err)
	require.Contains(t, errs, "say which schedules: their names, --selector or --all, one of them")

	require.Equal(t, "Schedule often is already paused, skip\nSchedule yearly paused successfully\n",
		s.Must("schedule", "pause", "--all"))
	require.Equal(t, "Schedule yearly unpaused successfully\n", s.Must("schedule", "unpause", "-l", "team=a"))
	require.Regexp(t, `(?m)^often .* true$`, s.Must("schedule", "get"))
	require.Contains(t, s.Must("schedule", "describe"), "\n\nName:         yearly\n")

	s.Serve("--schedule-skip-immediately")
	s.Eventually("the schedules are checked", func(context.Context) (bool, error) {
		return strings.Count(s.Must("schedule", "get"), "Enabled") == 2, nil
	})
	require.Regexp(t, `Last Skipped: +\d{4}-`, s.Must("schedule", "describe", "yearly"))
	require.Equal(t, "Schedule deleted: often\nSchedule deleted: yearly\n",
		s.Must("schedule", "delete", "--all", "--confirm"))
	require.Equal(t, "No schedules found.\n", s.Must("schedule", "delete", "--all", "--confirm"))
	require.Empty(t, scheduled(s))
}

// scheduled returns the backups of the schedule "often".
func scheduled(s *site.Site) []velerov1.Backup {
	s.T.Helper()
	var list velerov1.BackupList
	require.NoError(s.T, s.Client.List(s.T.Context(), &list, client.InNamespace(s.Namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: "often"}))
	return list.Items
}
