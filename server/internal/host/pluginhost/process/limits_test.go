package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimitsHaveDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, Limits{MessageSize: 256 << 20, LinesPerSecond: 1000}, Limits{}.withDefaults())
	require.Equal(t, Limits{MessageSize: 1<<31 - 1, LinesPerSecond: -1},
		Limits{MessageSize: -1, LinesPerSecond: -1}.withDefaults())
}
