package nametable

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableHoldsWhatWasAdded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	var n Table
	added := map[Name]string{}
	for range 5000 { // some pieces
		name := strings.Repeat("x", random.IntN(300)) + string(rune('a'+random.IntN(26)))
		if random.IntN(500) == 0 {
			name = strings.Repeat("long", pieceSize/4-1)
		}
		at, err := n.Add(name)
		require.NoError(t, err)
		_, taken := added[at]
		require.False(t, taken)
		added[at] = name
	}
	empty, err := n.Add("")
	require.NoError(t, err)
	n.Seal()
	require.Greater(t, len(n.pieces), 10)
	for at, name := range added {
		require.Equal(t, name, n.Of(at))
	}
	require.Empty(t, n.Of(empty))

	_, err = n.Add(strings.Repeat("x", pieceSize-1))
	require.ErrorIs(t, err, ErrLimit)
}
