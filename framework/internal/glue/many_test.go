package glue_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

func TestManyLeavesOutWhatIsNotThereSoon(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]func(ctx context.Context) (string, error){
		"late":             func(ctx context.Context) (string, error) { <-ctx.Done(); return "late", nil },
		"deaf":             func(context.Context) (string, error) { time.Sleep(time.Hour); return "late", nil },
		"failing":          func(context.Context) (string, error) { return "", errors.New("disk full") },
		"panicking":        func(context.Context) (string, error) { panic("broken") },
		"with a nil panic": func(context.Context) (string, error) { panic(any(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var ids []string
				for i := range glue.ManyOperations {
					ids = append(ids, fmt.Sprint(i))
				}
				replies, err := glue.Many(t.Context(), ids, func(ctx context.Context, id string) (string, error) {
					if id == "3" {
						return odd(ctx)
					}
					time.Sleep(time.Millisecond)
					return "reply to " + id, nil
				})
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(began), time.Second)
				require.Len(t, replies, len(ids)-1)
				require.NotContains(t, replies, "3")
				require.Equal(t, "reply to 4", replies["4"])
				time.Sleep(2 * time.Hour) // until the deaf one has returned
			})
		})
	}
}

func TestManyAsksAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls, most atomic.Int64
		ids := make([]string, glue.ManyOperations)
		_, err := glue.Many(t.Context(), ids, func(context.Context, string) (int, error) {
			most.Store(max(most.Load(), calls.Add(1)))
			defer calls.Add(-1)
			time.Sleep(time.Millisecond)
			return 0, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 16, most.Load())
	})
	_, err := glue.Many(t.Context(), make([]string, glue.ManyOperations+1),
		func(context.Context, string) (int, error) { return 0, nil })
	require.ErrorIs(t, err, glue.ErrInvalid)
}
