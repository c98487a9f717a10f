package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestRunGoesOnForTheGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, stop := context.WithCancel(t.Context())
		defer stop()
		runs := NewRuns(t.Context(), time.Minute)
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
	runs := NewRuns(t.Context(), time.Minute)
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
	runs := NewRuns(t.Context(), 0)
	run := runs.Begin(t.Context(), "uid")
	defer run.End()
	err := errors.New("disk full")
	require.Equal(t, err, run.Reason(err))
}

func TestCatchPanicsReturnsAnError(t *testing.T) {
	t.Parallel()
	err := CatchPanics(hclog.NewNullLogger(), func() error { panic("index out of range") })
	require.ErrorContains(t, err, "panic in the server: index out of range")
	require.NoError(t, CatchPanics(hclog.NewNullLogger(), func() error { return nil }))
}

func TestLostLeadEndsRunsAtOnce(t *testing.T) {
	t.Parallel()
	lost, lose := context.WithCancel(t.Context())
	runs := NewRuns(lost, time.Hour)
	run := runs.Begin(t.Context(), "uid")
	defer run.End()
	require.NoError(t, run.Ctx.Err())
	lose()
	<-run.Ctx.Done()
	<-run.Final.Done()
	require.ErrorIs(t, context.Cause(run.Ctx), ErrLostLead)
	require.ErrorIs(t, context.Cause(run.Final), ErrLostLead)
}
