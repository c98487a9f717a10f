package panics_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/panics"
)

func TestCatch(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &lines})
	require.NoError(t, panics.Catch(log, func() error { return nil }))
	require.Equal(t, io.EOF, panics.Catch(log, func() error { return io.EOF }))
	require.Empty(t, lines.String())
	err := panics.Catch(log, func() error {
		var none []int
		return fmt.Errorf("%d", none[len(lines.String())])
	})
	require.ErrorIs(t, err, panics.Err)
	require.EqualError(t, err, "panic in the server: runtime error: index out of range [0] with length 0")
	require.Contains(t, lines.String(), "TestCatch", "the stack")
}
