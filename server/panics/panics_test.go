package panics_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/panics"
)

func TestCatch(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &lines})
	require.NoError(t, panics.Catch(log, func() error { return nil }))
	require.Equal(t, io.EOF, panics.Catch(log, func() error { return io.EOF }))
	require.Empty(t, lines.String())
	err := panics.Catch(log, func() error {
		var none map[string]int
		none["a"] = 1
		return nil
	})
	require.ErrorIs(t, err, panics.Err)
	require.EqualError(t, err, "panic in the server: assignment to entry in nil map")
	require.Contains(t, lines.String(), "TestCatch", "the stack")
}
