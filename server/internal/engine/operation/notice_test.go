package operation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

func TestTroubleIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards both
		var all []operation.Notice
		failure := errors.New("plugin is gone")
		announced := func() []operation.Notice {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		m := run(t, actions{
			progress: func(context.Context, string, string) (framework.OperationProgress, error) {
				mu.Lock()
				defer mu.Unlock()
				return framework.OperationProgress{NCompleted: 5, NTotal: 10, Units: "bytes"}, failure
			},
			cancel: func(context.Context, string, string) error { return nil },
		}, operation.Options{
			Notice: func(n operation.Notice) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, n)
			},
			Limits: func(string) operation.Limits {
				return operation.Limits{Stall: 3 * time.Hour, Grace: 10 * time.Minute}
			},
		})
		var operations []operation.Operation
		for i := range 50 {
			operations = append(operations, newOperation("a.io/copy", fmt.Sprint(i)))
		}
		g := m.Follow(nightly(), operations, 0)
		require.Equal(t, []*operation.Group{g}, m.Groups())
		time.Sleep(time.Hour)
		synctest.Wait()
		notices := announced()
		require.Len(t, notices, 1, "one of many operations")
		require.Equal(t, operation.TroubleBegan, notices[0].Reason)
		require.Equal(t, nightly().Name, notices[0].Owner.Name)
		require.Regexp(t, `^operation \d+ of a.io/copy for persistentvolumeclaims/shop/\d+ cannot be followed, .*: plugin is gone$`, notices[0].Text)
		require.Equal(t, "plugin is gone", g.Followed()[7].Trouble)
		require.Empty(t, g.Followed()[7].Cancelled)

		mu.Lock()
		failure = nil
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, announced(), 1)
		require.Empty(t, g.Followed()[7].Trouble)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		notices = announced()
		require.Len(t, notices, 2)
		require.Equal(t, operation.Stalled, notices[1].Reason)
		require.Contains(t, notices[1].Text, "made no progress for 3h0m0s and is cancelled; it had done 5 of 10 bytes, and "+
			"nothing new for 3h0m")
		<-g.Done()
		require.Len(t, announced(), 2)
	})
}

func TestFollowedSaysWhyItIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := run(t, actions{
			progress: func(context.Context, string, string) (framework.OperationProgress, error) {
				return framework.OperationProgress{}, nil
			},
			cancel: func(context.Context, string, string) error { return nil },
		}, operation.Options{Notice: func(n operation.Notice) { t.Error("a user has asked for it", n) }})
		g := m.Follow(nightly(), []operation.Operation{newOperation("a.io/copy", "op-1")}, 0)
		g.Cancel(errors.New("on request"))
		require.Equal(t, "on request", g.Followed()[0].Cancelled)
		<-g.Done()
		require.Empty(t, g.Followed()[0].Cancelled)
	})
}
