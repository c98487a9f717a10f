package controller

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
		o := NewOperations(t.Context(), time.Minute)
		op := o.begin(server, "uid")
		defer op.end()
		require.True(t, o.isRunning("uid"))

		stop()
		time.Sleep(time.Minute - time.Second)
		require.NoError(t, op.ctx.Err())
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(op.ctx), errShutdown)
		require.ErrorIs(t, op.reason(errors.New("read: context canceled")), errShutdown)

		require.NoError(t, op.final.Err(), "there is time left for the last writes")
		time.Sleep(FinalWrites)
		synctest.Wait()
		require.Error(t, op.final.Err())
	})
}

func TestAnOperationIsStoppedByItsUID(t *testing.T) {
	t.Parallel()
	o := NewOperations(t.Context(), time.Minute)
	mine, other := o.begin(t.Context(), "mine"), o.begin(t.Context(), "other")
	defer other.end()
	o.stop("mine", errDeleted)
	o.stop("nobody", errDeleted)
	require.ErrorIs(t, context.Cause(mine.ctx), errDeleted)
	require.NoError(t, mine.final.Err())
	require.NoError(t, other.ctx.Err())

	mine.end()
	require.False(t, o.isRunning("mine"))
	require.True(t, o.isRunning("other"))
}

func TestTheReasonIsTheErrorUnlessItHadToEnd(t *testing.T) {
	t.Parallel()
	o := NewOperations(t.Context(), 0)
	op := o.begin(t.Context(), "uid")
	defer op.end()
	err := errors.New("disk full")
	require.Equal(t, err, op.reason(err))
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	err := safely(hclog.NewNullLogger(), func() error { panic("index out of range") })
	require.ErrorContains(t, err, "panic in the server: index out of range")
	require.NoError(t, safely(hclog.NewNullLogger(), func() error { return nil }))
}

func TestALostLeadEndsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	lost, lose := context.WithCancel(t.Context())
	o := NewOperations(lost, time.Hour)
	op := o.begin(t.Context(), "uid")
	defer op.end()
	require.NoError(t, op.ctx.Err())
	lose()
	<-op.ctx.Done()
	<-op.final.Done()
	require.ErrorIs(t, context.Cause(op.ctx), ErrLostLead)
	require.ErrorIs(t, context.Cause(op.final), ErrLostLead)
}
