package calls

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiedErrorQuotesLastLinesOrStartOfCrash(t *testing.T) {
	t.Parallel()
	died := &DiedError{Command: "/plugins/p", During: "Execute", ExitStatus: "exit status 2",
		Stderr: []string{"panic: boom"}}
	for range 19 {
		died.Stderr = append(died.Stderr, "goroutine 1 [running]:")
	}
	require.EqualError(t, died, "plugin /plugins/p died during Execute: exit status 2; last on stderr: panic: boom"+
		" | goroutine 1 [running]: | goroutine 1 [running]: | goroutine 1 [running]: | goroutine 1 [running]:")
	died.Stderr = nil
	for i := range 20 {
		died.Stderr = append(died.Stderr, fmt.Sprintf("line %d", i))
	}
	require.EqualError(t, died, "plugin /plugins/p died during Execute: exit status 2; last on stderr: line 15 | line "+
		"16 | line 17 | line 18 | line 19")
}
