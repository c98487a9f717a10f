package confine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What processes without rights can do is tested with "cleat plugin add"; see server/test/plugins.

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	out := &limited{most: 5}
	_, err := fmt.Fprint(out, "12345")
	require.NoError(t, err)
	_, err = fmt.Fprint(out, "6")
	require.Error(t, err)
	require.True(t, out.full)
	require.Equal(t, "12345", out.String())

	end := &tail{}
	for i := range 3000 {
		_, err := fmt.Fprintf(end, "%d ", i)
		require.NoError(t, err)
	}
	_, err = fmt.Fprint(end, strings.Repeat("x", 10<<10)+"end")
	require.NoError(t, err)
	require.Len(t, end.text, 4<<10)
	require.True(t, strings.HasSuffix(string(end.text), "xend"))
}

func TestOnlyTheProgramItselfEnters(t *testing.T) {
	t.Parallel()
	_, err := Enter()
	require.ErrorContains(t, err, "only this program itself starts this command")
}
