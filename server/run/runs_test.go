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

func TestAnOperationGoesOnForTheGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, stop := context.WithCancel(t.Context())
		defer stop()
		o := NewRuns(t.Context(), time.Minute)
		op := o.Begin(server, "uid")
		defer op.End()
		require.True(t, o.IsRunning("uid"))

		stop()
		time.Sleep(time.Minute - time.Second)
		require.NoError(t, op.Ctx.Err())
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(op.Ctx), ErrShutdown)
		require.ErrorIs(t, op.Reason(errors.New("read: context canceled")), ErrShutdown)

		require.NoError(t, op.Final.Err(), "there is time left for the last writes")
		time.Sleep(FinalWrites)
		synctest.Wait()
		require.Error(t, op.Final.Err())
	})
}

func TestAnOperationIsStoppedByItsUID(t *testing.T) {
	t.Parallel()
	o := NewRuns(t.Context(), time.Minute)
	mine, other := o.Begin(t.Context(), "mine"), o.Begin(t.Context(), "other")
	defer other.End()
	o.Stop("mine", ErrDeleted)
	o.Stop("nobody", ErrDeleted)
	require.ErrorIs(t, context.Cause(mine.Ctx), ErrDeleted)
	require.NoError(t, mine.Final.Err())
	require.NoError(t, other.Ctx.Err())

	mine.End()
	require.False(t, o.IsRunning("mine"))
	require.True(t, o.IsRunning("other"))
}

func TestTheReasonIsTheErrorUnlessItHadToEnd(t *testing.T) {
	t.Parallel()
	o := NewRuns(t.Context(), 0)
	op := o.Begin(t.Context(), "uid")
	defer op.End()
	err := errors.New("disk full")
	require.Equal(t, err, op.Reason(err))
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	err := CatchPanics(hclog.NewNullLogger(), func() error { panic("index out of range") })
	require.ErrorContains(t, err, "panic in the server: index out of range")
	require.NoError(t, CatchPanics(hclog.NewNullLogger(), func() error { return nil }))
}

func TestALostLeadEndsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	lost, lose := context.WithCancel(t.Context())
	o := NewRuns(lost, time.Hour)
	op := o.Begin(t.Context(), "uid")
	defer op.End()
	require.NoError(t, op.Ctx.Err())
	lose()
	<-op.Ctx.Done()
	<-op.Final.Done()
	require.ErrorIs(t, context.Cause(op.Ctx), ErrLostLead)
	require.ErrorIs(t, context.Cause(op.Final), ErrLostLead)
}
