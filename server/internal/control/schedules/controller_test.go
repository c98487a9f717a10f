package schedules

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// scheduleSite is a namespace with schedules, their controller, and a clock that the test sets.
type scheduleSite struct {
	*controllertest.Cluster
	t        *testing.T
	now      time.Time
	recorder *events.FakeRecorder
	r        *Controller
}

func newScheduleSite(t *testing.T) *scheduleSite {
	t.Helper()
	s := &scheduleSite{
		Cluster: controllertest.NewCluster(t, nil), t: t, recorder: events.NewFakeRecorder(100),
		now: time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour), // noon of tomorrow, after all creations
	}
	s.r = s.controller()
	return s
}

func (s *scheduleSite) controller() *Controller {
	return &Controller{Cluster: s.Cluster.Cluster, Events: s.recorder, Log: hclog.NewNullLogger(),
		Now: func() time.Time { return s.now }}
}

// schedule creates a schedule whose last backup was created now.
func (s *scheduleSite) schedule(name, expression string, change ...func(*velerov1.Schedule)) {
	s.t.Helper()
	schedule := &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       velerov1.ScheduleSpec{Schedule: expression},
		Status:     velerov1.ScheduleStatus{LastBackup: run.Timestamp(s.now)},
	}
	for _, f := range change {
		f(schedule)
	}
	s.Add(s.t, schedule)
}

func (s *scheduleSite) read(name string) *velerov1.Schedule {
	s.t.Helper()
	schedule := new(velerov1.Schedule)
	require.NoError(s.t, s.Get(s.t.Context(), s.Request(name).NamespacedName, schedule))
	return schedule
}

// look reconciles a schedule and returns the time until the next reconciliation.
func (s *scheduleSite) look(name string) time.Duration {
	s.t.Helper()
	result, err := s.r.Reconcile(s.t.Context(), s.Request(name))
	require.NoError(s.t, err)
	return result.RequeueAfter
}

// pass sets the clock forward and reconciles a schedule.
func (s *scheduleSite) pass(name string, d time.Duration) {
	s.t.Helper()
	s.now = s.now.Add(d)
	s.look(name)
}

// made returns the names of the backups, without the name of the schedule and the date.
func (s *scheduleSite) made() []string {
	s.t.Helper()
	var list velerov1.BackupList
	require.NoError(s.t, s.List(s.t.Context(), &list, client.InNamespace(s.Namespace)))
	names := []string{}
	for _, b := range list.Items {
		names = append(names, b.Name[len(b.Name)-6:])
	}
	slices.Sort(names)
	return names
}

// end completes all backups.
func (s *scheduleSite) end() { s.move(velerov1.BackupPhaseCompleted) }

func (s *scheduleSite) move(phase velerov1.BackupPhase) {
	s.t.Helper()
	var list velerov1.BackupList
	require.NoError(s.t, s.List(s.t.Context(), &list, client.InNamespace(s.Namespace)))
	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		list.Items[i].Status.Phase = phase
		require.NoError(s.t, s.Patch(s.t.Context(), &list.Items[i], client.MergeFrom(before)))
	}
}

func (s *scheduleSite) change(name string, change func(*velerov1.Schedule)) {
	s.t.Helper()
	schedule := s.read(name)
	before := schedule.DeepCopy()
	change(schedule)
	require.NoError(s.t, s.Patch(s.t.Context(), schedule, client.MergeFrom(before)))
}

// recorded returns the events since the last call.
func (s *scheduleSite) recorded() string {
	var all []string
	for {
		select {
		case e := <-s.recorder.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func TestScheduleCreatesBackupsOnTime(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *")
	require.Equal(t, time.Minute, s.look("hourly"), "the clock is looked at now and then")
	require.Equal(t, velerov1.SchedulePhaseEnabled, s.read("hourly").Status.Phase)
	require.Empty(t, s.made())

	s.now = s.now.Add(time.Hour - 20*time.Second)
	require.Equal(t, 20*time.Second, s.look("hourly"))
	s.pass("hourly", 19*time.Second)
	require.Empty(t, s.made())
	s.pass("hourly", time.Second)
	require.Equal(t, []string{"130000"}, s.made())
	require.Equal(t, s.now.Unix(), s.read("hourly").Status.LastBackup.Unix())
	require.Contains(t, s.recorded(), "created backup hourly-")
	for range 3 {
		s.pass("hourly", time.Second)
	}
	require.Equal(t, []string{"130000"}, s.made())
	s.end()
	s.pass("hourly", time.Hour)
	require.Equal(t, []string{"130000", "140000"}, s.made())
}

func TestMissedTimesCreateOneBackup(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *")
	s.schedule("often", "@every 7m")
	s.now = s.now.Add(5*time.Hour + 30*time.Minute + time.Second/2)
	s.look("hourly")
	require.Equal(t, []string{"170000"}, s.made())
	s.look("often")
	require.Equal(t, []string{"170000", "172900"}, s.made())
	require.Equal(t, s.now.Truncate(time.Second).Unix(), s.read("often").Status.LastBackup.Unix())
	require.Equal(t, time.Minute, s.look("often"))
	s.end()
	s.pass("hourly", 30*time.Minute)
	s.pass("often", 0)
	require.Equal(t, []string{"170000", "172900", "175800", "180000"}, s.made(), "a period begins with the last backup")
}

func TestOneBackupPerTimeDespiteFailures(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *")
	s.look("hourly")
	s.now = s.now.Add(time.Hour)

	// The server dies between the creation of the backup and the write of the status.
	s.r.Cluster = &run.Cluster{Client: dying{s.Client}, Live: s.Live, Namespace: s.Namespace}
	_, err := s.r.Reconcile(t.Context(), s.Request("hourly"))
	require.ErrorContains(t, err, "write the state of the schedule: the server died")
	require.Equal(t, []string{"130000"}, s.made())
	s.r = s.controller()
	s.pass("hourly", time.Minute)
	require.Equal(t, []string{"130000"}, s.made())
	after := s.read("hourly").Status
	require.Nil(t, after.LastSkipped, "it was not skipped for its own backup")
	require.Equal(t, s.now.Unix(), after.LastBackup.Unix())

	// The cache is stale, and the backup is already deleted.
	s.end()
	s.pass("hourly", time.Hour-time.Minute)
	var list velerov1.BackupList
	require.NoError(t, s.List(t.Context(), &list, client.InNamespace(s.Namespace)))
	for i := range list.Items {
		require.NoError(t, s.Delete(t.Context(), &list.Items[i]))
	}
	late := s.read("hourly")
	late.Status = after
	s.r.Cluster = &run.Cluster{Client: stale{s.Client, late}, Live: s.Live, Namespace: s.Namespace}
	s.look("hourly")
	require.Empty(t, s.made())
}

// dying is a client whose changes of objects fail.
type dying struct{ client.Client }

func (dying) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("the server died")
}

// stale is a cache with an old state of a schedule.
type stale struct {
	client.Client
	schedule *velerov1.Schedule
}

func (c stale) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if schedule, ok := object.(*velerov1.Schedule); ok {
		c.schedule.DeepCopyInto(schedule)
		return nil
	}
	return c.Client.Get(ctx, key, object, opts...)
}

func TestTwoServersCreateOneBackup(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *")
	s.look("hourly")
	for range 5 {
		s.now = s.now.Add(time.Hour)
		var both sync.WaitGroup
		for range 2 {
			r := s.controller()
			both.Go(func() {
				for { // one of them gets a conflict and tries again
					if _, err := r.Reconcile(t.Context(), s.Request("hourly")); err == nil || t.Context().Err() != nil {
						return
					}
				}
			})
		}
		both.Wait()
		s.end()
	}
	require.Equal(t, []string{"130000", "140000", "150000", "160000", "170000"}, s.made())
	require.Nil(t, s.read("hourly").Status.LastSkipped)
}

func TestScheduleSkipsWhileABackupIsUnfinished(t *testing.T) {
	t.Parallel()
	for phase, piles := range map[velerov1.BackupPhase]bool{
		"": true, "New": true, "Queued": true, "ReadyToStart": true, "InProgress": true,
		"WaitingForPluginOperations": false, "WaitingForPluginOperationsPartiallyFailed": false,
		"Finalizing": false, "FinalizingPartiallyFailed": false,
		"Completed": false, "PartiallyFailed": false, "Failed": false, "FailedValidation": false, "Deleting": false,
	} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			s := newScheduleSite(t)
			s.schedule("hourly", "0 * * * *")
			s.schedule("other", "0 * * * *")
			s.pass("hourly", time.Hour)
			s.move(phase)
			s.recorded()
			s.pass("hourly", time.Hour)
			s.pass("hourly", time.Second)
			status := s.read("hourly").Status
			if !piles {
				require.Equal(t, []string{"130000", "140000"}, s.made())
				require.Nil(t, status.LastSkipped)
				return
			}
			require.Equal(t, []string{"130000"}, s.made())
			require.Equal(t, s.now.Add(-time.Second).Unix(), status.LastSkipped.Unix())
			require.Equal(t, s.now.Add(-time.Hour-time.Second).Unix(), status.LastBackup.Unix())
			recorded := s.recorded()
			require.Equal(t, 1, strings.Count(recorded, "Skipped"), "it is skipped once: %s", recorded)
			require.Contains(t, recorded, "T14:00:00Z: backup hourly-")
			require.Contains(t, recorded, " of this schedule is "+
				string(run.BackupPhase(controllertest.NewBackup("", controllertest.InPhase(phase)))))

			s.pass("other", 0)
			require.Equal(t, []string{"130000", "140000"}, s.made(), "another schedule does not mind")
			s.end()
			s.pass("hourly", 10*time.Minute)
			require.Equal(t, []string{"130000", "140000"}, s.made(), "what was skipped is not made up for")
			s.pass("hourly", 50*time.Minute)
			require.Equal(t, []string{"130000", "140000", "150000"}, s.made())
		})
	}
}

func TestPausedScheduleCreatesNothing(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *", func(schedule *velerov1.Schedule) {
		schedule.Spec.Paused, schedule.Spec.SkipImmediately = true, new(true)
	})
	require.Zero(t, s.look("hourly"), "nothing is to be done until it is changed")
	s.pass("hourly", 3*time.Hour)
	require.Empty(t, s.made())
	schedule := s.read("hourly")
	require.Equal(t, velerov1.SchedulePhaseEnabled, schedule.Status.Phase, "it is checked all the same")
	require.True(t, *schedule.Spec.SkipImmediately, "this is for when it goes on")

	s.change("hourly", func(schedule *velerov1.Schedule) { schedule.Spec.Paused = false })
	s.look("hourly")
	require.Empty(t, s.made())
	schedule = s.read("hourly")
	require.False(t, *schedule.Spec.SkipImmediately)
	require.Equal(t, s.now.Unix(), schedule.Status.LastSkipped.Unix())

	s.change("hourly", func(schedule *velerov1.Schedule) { schedule.Spec.Paused = true })
	s.pass("hourly", 2*time.Hour+time.Minute)
	s.change("hourly", func(schedule *velerov1.Schedule) { schedule.Spec.Paused = false })
	s.look("hourly")
	require.Equal(t, []string{"170000"}, s.made(), "what was missed is made up for by one, unless it says to skip it")
}

func TestSkipImmediately(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec    *bool
		server  bool
		skipped bool
	}{
		"no setting":                     {nil, false, false},
		"the server says it":             {nil, true, true},
		"the schedule says it":           {new(true), false, true},
		"the schedule says the contrary": {new(false), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduleSite(t)
			s.r.SkipImmediately = tt.server
			s.schedule("old", "0 * * * *", func(schedule *velerov1.Schedule) {
				schedule.Spec.SkipImmediately = tt.spec
				schedule.Status.LastBackup = run.Timestamp(s.now.Add(-24 * time.Hour))
			})
			s.look("old")
			schedule := s.read("old")
			require.False(t, *schedule.Spec.SkipImmediately, "it is acted on once")
			if tt.skipped {
				require.Empty(t, s.made())
				require.Equal(t, s.now.Unix(), schedule.Status.LastSkipped.Unix())
			} else {
				require.Equal(t, []string{"120000"}, s.made())
				require.Nil(t, schedule.Status.LastSkipped)
			}
		})
	}
}

func TestInvalidScheduleReportsItsErrors(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("wrong", "every day")
	s.pass("wrong", 48*time.Hour)
	schedule := s.read("wrong")
	require.Equal(t, velerov1.SchedulePhaseFailedValidation, schedule.Status.Phase)
	require.Equal(t, []string{"invalid schedule: expected exactly 5 fields, found 2: [every day]"},
		schedule.Status.ValidationErrors)
	require.Empty(t, s.made())

	s.change("wrong", func(schedule *velerov1.Schedule) { schedule.Spec.Schedule = "@daily" })
	s.look("wrong")
	schedule = s.read("wrong")
	require.Equal(t, velerov1.SchedulePhaseEnabled, schedule.Status.Phase)
	require.Empty(t, schedule.Status.ValidationErrors)
	require.Len(t, s.made(), 1)

	long := strings.Repeat("x", maxScheduleName+1)
	s.schedule(long, "@daily")
	s.look(long)
	require.Equal(t, []string{"the name of the schedule has 239 characters, want at most 238, as backups are named " +
		"after it"}, s.read(long).Status.ValidationErrors)
	s.end()
	s.schedule(long[1:], "@hourly")
	s.pass(long[1:], time.Hour)
	require.Len(t, s.made(), 2, "the longest name that is possible")
}

func TestClockChangesDoNotStopASchedule(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *")
	s.look("hourly")
	s.pass("hourly", 90*time.Minute)
	s.end()
	require.Equal(t, []string{"130000"}, s.made())

	// The clock is set back a little, before a time whose backup was created.
	s.pass("hourly", -31*time.Minute)
	s.pass("hourly", 10*time.Minute)
	require.Equal(t, []string{"130000"}, s.made())

	// The clock is set years ahead, which creates one backup, and back again.
	s.pass("hourly", 5*365*24*time.Hour)
	s.end()
	require.Len(t, s.made(), 2)
	s.pass("hourly", -5*365*24*time.Hour)
	require.Len(t, s.made(), 2)
	require.Equal(t, s.now.Unix(), s.read("hourly").Status.LastBackup.Unix())
	s.pass("hourly", time.Hour)
	require.Equal(t, []string{"130000", "130000", "140000"}, s.made())
}

func TestDeletedScheduleCreatesNothing(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("gone", "@hourly")
	s.schedule("going", "@hourly", func(schedule *velerov1.Schedule) { schedule.Finalizers = []string{"example.io/keep"} })
	for _, name := range []string{"gone", "going"} {
		require.NoError(t, s.Delete(t.Context(), s.named(name)))
		s.pass(name, 2*time.Hour)
		require.Zero(t, s.look(name))
	}
	require.Empty(t, s.made())
}

func (s *scheduleSite) named(name string) *velerov1.Schedule {
	return &velerov1.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
}

func TestRejectedBackupIsCreatedLater(t *testing.T) {
	t.Parallel()
	s := newScheduleSite(t)
	s.schedule("hourly", "0 * * * *", func(schedule *velerov1.Schedule) {
		schedule.Spec.Template.Metadata.Labels = map[string]string{"a label": "with spaces"}
	})
	s.look("hourly")
	s.now = s.now.Add(time.Hour)
	_, err := s.r.Reconcile(t.Context(), s.Request("hourly"))
	require.ErrorContains(t, err, "create backup hourly-")
	require.Contains(t, s.recorded(), "NotCreated backup hourly-")
	s.change("hourly", func(schedule *velerov1.Schedule) { schedule.Spec.Template.Metadata.Labels = nil })
	s.pass("hourly", time.Minute)
	require.Equal(t, []string{"130000"}, s.made())
}

func TestNewBackupCopiesFromTheSchedule(t *testing.T) {
	t.Parallel()
	schedule := &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "velero", Name: strings.Repeat("long", 20), UID: "u",
			Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "n"},
		},
		Spec: velerov1.ScheduleSpec{Template: velerov1.BackupSpec{IncludedNamespaces: []string{"shop"}}},
	}
	b := NewBackup(schedule, time.Date(2026, 3, 4, 1, 2, 3, 0, time.FixedZone("", 3600)))
	require.Equal(t, schedule.Name+"-20260304000203", b.Name, "in UTC")
	require.Equal(t, "velero", b.Namespace)
	require.Equal(t, map[string]string{"team": "a", velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule.Name)},
		b.Labels)
	require.Equal(t, map[string]string{"note": "n"}, b.Annotations)
	require.Equal(t, schedule.Spec.Template, b.Spec)
	require.Empty(t, b.OwnerReferences)
	require.NotContains(t, schedule.Labels, velerov1.ScheduleNameLabel, "the schedule stays as it is")

	schedule.Spec.Template.Metadata.Labels = map[string]string{"of": "the template"}
	schedule.Spec.Template.Metadata.Annotations = map[string]string{"note": "of the template", "more": "m"}
	schedule.Spec.UseOwnerReferencesInBackup = new(true)
	b = NewBackup(schedule, controllertest.Noon())
	require.Equal(t, map[string]string{"of": "the template",
		velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule.Name)}, b.Labels)
	require.Equal(t, map[string]string{"note": "of the template", "more": "m"}, b.Annotations)
	require.Equal(t, map[string]string{"note": "n"}, schedule.Annotations, "the schedule stays as it is")
	require.Equal(t, []metav1.OwnerReference{{APIVersion: "velero.io/v1", Kind: "Schedule", Name: schedule.Name, UID: "u",
		Controller: new(true)}}, b.OwnerReferences)
}
