package output

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestLinesOverLimitAreLeftOutAndCounted(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	var passed []string
	dropped := map[string]int{}
	o := &Output{
		PerSecond: 2, Clock: clock, Pass: func(l Line) { passed = append(passed, l.String()) },
		Drop: func(reason string) { dropped[reason]++ },
	}
	write := func(from, to int) {
		for i := from; i <= to; i++ {
			o.Line(fmt.Appendf(nil, "line %d", i), i%3 == 0)
		}
	}
	notice := func(n int) string {
		return fmt.Sprintf("[WARN] lines of this plugin are left out, it writes more than plugins.limits.linesPerSecond "+
			"leftOut=%d linesPerSecond=2", n)
	}

	write(1, 5)
	require.Equal(t, []string{"line 1", "line 2"}, passed)
	require.Equal(t, []string{"line 1", "line 2", "line 3", "line 4", "line 5"}, o.tail.last(),
		"the last lines are kept nevertheless")

	passed = nil
	clock.SetTime(clock.Now().Add(999 * time.Millisecond))
	write(6, 6)
	require.Empty(t, passed)
	clock.SetTime(clock.Now().Add(time.Millisecond))
	write(7, 8)
	require.Equal(t, []string{notice(4), "line 7", "line 8"}, passed)

	passed = nil
	write(9, 9)
	o.Flush()
	o.Flush()
	require.Equal(t, []string{notice(1)}, passed, "each is reported once")

	passed = nil
	o.PerSecond = -1
	write(1, 100)
	require.Len(t, passed, 100)
	require.Equal(t, map[string]int{"rate": 5, "length": 33}, dropped,
		"a line that is left out does not count as truncated")
}
