package waits_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

func TestPartHasTheWaitsOfItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var part waits.Part
		for _, ctx := range []func() *waits.Wait{
			func() *waits.Wait { return waits.Begin(waits.WithPart(t.Context(), &part), "claim %s", "a") },
			func() *waits.Wait {
				return waits.Begin(waits.WithPart(waits.With(t.Context(), waits.New()), &part), "claim %s", "b")
			},
		} {
			brief := ctx()
			brief.End()
			long := ctx()
			long.Because("no node")
			time.Sleep(4 * time.Second)
			require.Len(t, part.Open(), 1)
			require.Equal(t, "no node", part.Open()[0].Because)
			long.End()
			long.End()
		}
		require.Empty(t, part.Open())
		past := part.Past()
		require.Len(t, past, 2)
		require.Equal(t, "claim b", past[1].For)
		require.Equal(t, 4*time.Second, past[1].Lasted)
	})
}
