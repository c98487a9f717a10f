package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestRunGoesOnForTheGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, stop := context.WithCancel(t.Context())
		defer stop()
		runs := NewRuns(RunsOptions{Lost: t.Context(), Grace: time.Minute})
		run := runs.Begin(server, "uid")
		defer run.End()
		require.True(t, runs.IsRunning("uid"))

		stop()
		time.Sleep(time.Minute - time.Second)
		require.NoError(t, run.Ctx.Err())
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(run.Ctx), ErrShutdown)
		require.ErrorIs(t, run.Reason(errors.New("read: context canceled")), ErrShutdown)

		require.NoError(t, run.Final.Err(), "the last writes have more time")
		time.Sleep(FinalWrites)
		synctest.Wait()
		require.Error(t, run.Final.Err())
	})
}

func TestStopEndsTheRunWithTheUID(t *testing.T) {
	t.Parallel()
	runs := NewRuns(RunsOptions{Lost: t.Context(), Grace: time.Minute})
	one, other := runs.Begin(t.Context(), "one"), runs.Begin(t.Context(), "other")
	defer other.End()
	runs.Stop("one", ErrDeleted)
	runs.Stop("absent", ErrDeleted)
	require.ErrorIs(t, context.Cause(one.Ctx), ErrDeleted)
	require.NoError(t, one.Final.Err())
	require.NoError(t, other.Ctx.Err())

	one.End()
	require.False(t, runs.IsRunning("one"))
	require.True(t, runs.IsRunning("other"))
}

func TestReasonIsTheErrorUnlessTheRunWasEnded(t *testing.T) {
	t.Parallel()
	runs := NewRuns(RunsOptions{Lost: t.Context()})
	run := runs.Begin(t.Context(), "uid")
	defer run.End()
	err := errors.New("disk full")
	require.Equal(t, err, run.Reason(err))
}

func TestLostLeadEndsRunsAtOnce(t *testing.T) {
	t.Parallel()
	lost, lose := context.WithCancel(t.Context())
	runs := NewRuns(RunsOptions{Lost: lost, Grace: time.Hour})
	run := runs.Begin(t.Context(), "uid")
	defer run.End()
	require.NoError(t, run.Ctx.Err())
	lose()
	<-run.Ctx.Done()
	<-run.Final.Done()
	require.ErrorIs(t, context.Cause(run.Ctx), ErrLostLead)
	require.ErrorIs(t, context.Cause(run.Final), ErrLostLead)
}

func TestRunIsTakenUpUntilItsAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := NewRuns(RunsOptions{Kind: "backup", Identity: "here", Lost: t.Context(), Attempts: 3})
		b := &velerov1.Backup{}
		seen := map[string]bool{}
		for attempt := 1; attempt <= 3; attempt++ {
			run := runs.Begin(t.Context(), "uid")
			claim := run.Start()
			if attempt > 1 {
				var err error
				claim, err = run.TakeUp(b)
				require.NoError(t, err)
			}
			require.Equal(t, attempt, claim.Attempt)
			require.False(t, seen[claim.By], "two attempts have the same claim")
			seen[claim.By] = true
			claim.Set(b)
			require.Equal(t, claim, ClaimOf(b))
			run.End()
			time.Sleep(briefAttempt)
		}
		require.Equal(t, "attempt 3 of 3", runs.DescribeAttempt(b))
		_, err := takeUp(t, runs, b)
		require.EqualError(t, err, "gave up after 3 attempts: in each of them the server was stopped or killed, or lost its "+
			"lease, while the backup was in progress")

		// A run that another kind of server has begun counts as the first attempt. With one attempt, Velero's behaviour,
		// even the shortest one counts.
		once := NewRuns(RunsOptions{Kind: "restore", Lost: t.Context(), Attempts: 1})
		begun := &velerov1.Restore{}
		for range 2 {
			_, err = takeUp(t, once, begun)
			require.EqualError(t, err, `found a restore with status "InProgress" during the server starting, mark it as "Failed"`)
			run := once.Begin(t.Context(), "uid")
			run.Start().Set(begun)
			run.End()
		}
	})
}

func takeUp(t *testing.T, runs *Runs, object client.Object) (Claim, error) {
	t.Helper()
	run := runs.Begin(t.Context(), "uid")
	defer run.End()
	return run.TakeUp(object)
}

// TestAttemptWhoseServerEndsSoonDoesNotCount kills servers a few seconds after they have taken up a run, more often than a
// run has attempts.
func TestAttemptWhoseServerEndsSoonDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := NewRuns(RunsOptions{Kind: "backup", Identity: "here", Lost: t.Context(), Attempts: 2})
		b := &velerov1.Backup{}
		run := runs.Begin(t.Context(), "uid")
		run.Start().Set(b)
		run.End()
		again := func() {
			claim, err := takeUp(t, runs, b)
			require.NoError(t, err)
			claim.Set(b)
			require.Equal(t, claim, ClaimOf(b))
		}
		for range 20 {
			time.Sleep(8 * time.Second)
			again()
		}
		require.Equal(t, "attempt 21, which counts as 1 of 2 because the servers of others ended within 1m0s",
			runs.DescribeAttempt(b))
		time.Sleep(time.Hour) // the server works
		again()
		require.Equal(t, "attempt 22, which counts as 2 of 2 because the servers of others ended within 1m0s",
			runs.DescribeAttempt(b))

		// A run that ends its server each time is given up after a time.
		began, tries := time.Now(), 0
		for ; ; tries++ {
			time.Sleep(40 * time.Second)
			claim, err := takeUp(t, runs, b)
			if err != nil {
				require.ErrorContains(t, err, "gave up after ")
				break
			}
			claim.Set(b)
		}
		require.Greater(t, tries, 10)
		require.GreaterOrEqual(t, time.Since(began), briefFor)
		require.Less(t, time.Since(began), briefFor+time.Minute)
	})
}

func TestTimesOfAttemptsMayBeAnything(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z 9", "2026-01-02T03:04:05Z -1 x",
		"2026-01-02T03:04:05Z 5 2026-01-02T03:04:05Z"} {
		a := attemptsOf(Claim{Attempt: 3, Times: text})
		require.Equal(t, 3, a.counted(), "no attempts are given away")
		_, may := a.next(time.Now(), 3)
		require.False(t, may, text)
	}
}

func TestRunIsLeftToAnotherServer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause   error
		attempt int
		want    bool
	}{
		"it goes on":                    {nil, 1, false},
		"deleted":                       {ErrDeleted, 1, false},
		"the server stops":              {ErrShutdown, 1, true},
		"the server stops, last chance": {ErrShutdown, 2, false},
		"the lease is lost":             {ErrLostLead, 2, true},
		"taken up":                      {ErrTakenUp, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := NewRuns(RunsOptions{Lost: t.Context(), Attempts: 2}).Begin(t.Context(), "uid")
			defer run.End()
			if tt.cause != nil {
				run.Cancel(tt.cause)
			}
			b := &velerov1.Backup{}
			Claim{By: "me", Attempt: tt.attempt}.Set(b)
			require.Equal(t, tt.want, run.IsLeft(b))
		})
	}
}
