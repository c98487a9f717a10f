package spool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A file may take most of what is free, however little that is, and not all.
func TestReserveIsInProportionToWhatIsFree(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ free, writes, stays int64 }{
		"a large disk":                {free: 10 << 30, writes: 9 << 30},
		"a bomb on a large disk":      {free: 10 << 30, writes: 20 << 30, stays: 256 << 20},
		"a nearly full disk":          {free: 100 << 20, writes: 64 << 20},
		"a few objects on a full one": {free: 1 << 20, writes: 500 << 10},
		"a bomb on a nearly full one": {free: 100 << 20, writes: 1 << 30, stays: 25 << 20},
		"no byte is free":             {free: 0, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const piece = 1000
			written := int64(0)
			s := space{ask: func() (int64, bool) { return test.free - written, true }}
			full := false
			for ; written < test.writes && !full; written += piece {
				_, enough := s.enough(written)
				full = !enough
			}
			require.Equal(t, test.stays > 0 || test.free == 0, full)
			if full {
				require.LessOrEqual(t, test.stays, test.free-written+piece+lookEvery/reserveShare)
				require.GreaterOrEqual(t, test.free-written+piece, test.stays-piece)
			}
		})
	}
	unknown := space{ask: func() (int64, bool) { return 0, false }}
	_, enough := unknown.enough(0)
	require.True(t, enough)
}
