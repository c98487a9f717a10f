package waits_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

func TestLongestShowsTheOldestOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := waits.New()
		ctx := waits.With(t.Context(), list)
		began := time.Now()
		first := waits.Begin(ctx, "namespace %s", "shop")
		time.Sleep(time.Second)
		for range 1000 {
			defer waits.Begin(ctx, "namespace %s", "shop").End()
		}
		time.Sleep(time.Second)
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			defer waits.Begin(ctx, "claim %s", name).End()
		}
		oldest, others := list.Longest()
		require.Empty(t, oldest, "brief waits are not shown")
		require.Zero(t, others)

		time.Sleep(3 * time.Second)
		first.Because("it is being deleted")
		defer waits.Begin(ctx, "something new").End()
		oldest, others = list.Longest()
		require.Equal(t, waits.Waiting{For: "namespace shop", Because: "it is being deleted", Since: began, Parts: 1001},
			oldest[0])
		require.Len(t, oldest, 5)
		require.Equal(t, "claim d", oldest[4].For)
		require.Equal(t, 2, others)

		first.End()
		first.End()
		oldest, _ = list.Longest()
		require.Equal(t, waits.Waiting{For: "namespace shop", Since: began.Add(time.Second), Parts: 1000}, oldest[0])
	})
}

func TestLastingWaitsAreLoggedAtGrowingIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		list := waits.New()
		list.LogTo(hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true}))
		ctx := waits.With(t.Context(), list)
		brief := waits.Begin(ctx, "a moment")
		long := waits.Begin(ctx, "claim %s", "data")
		other := waits.Begin(ctx, "claim %s", "data")
		time.Sleep(9 * time.Second)
		brief.End()
		long.Because("no node")
		time.Sleep(time.Hour - 9*time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 11, "after 10, 20, 40 seconds and so on, and then each 10 minutes")
		for _, line := range lines {
			require.Contains(t, line, `waiting: for="claim data" since=2000-01-01T00:00:00Z`)
			require.Contains(t, line, `because="no node" parts=2`)
		}
		require.Contains(t, lines[0], "lasts=10s")
		require.Contains(t, lines[10], "lasts=50m40s")
		long.End()
		require.NotContains(t, out.String(), "any more", "another part waits for it")
		other.End()
		require.Contains(t, out.String(), `not waiting any more: for="claim data" lasted=1h0m0s`)
	})
}

func TestManyWaitsAreFewLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		list := waits.New()
		list.LogTo(hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true}))
		for i := range 5000 {
			defer list.Begin("claim %d", i).End()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), 5*4)
		require.Contains(t, out.String(), "others=4995")
	})
}

func TestWaitWithoutListDoesNothing(t *testing.T) {
	t.Parallel()
	w := waits.Begin(context.Background(), "nothing")
	w.Because("of nothing")
	w.End()
	oldest, others := waits.Of(context.Background()).Longest()
	require.Empty(t, oldest)
	require.Zero(t, others)
}
