package app

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestNewLogrWritesToHclog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := NewLogr(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Debug, DisableTime: true}))
	log.WithName("runtime").WithValues("a", 1).Info("started", "b", 2)
	log.V(5).Info("too much")
	log.Error(errors.New("boom"), "failed")
	require.Equal(t, "[DEBUG] runtime: started: a=1 b=2\n[ERROR] failed: error=boom\n", out.String())
	require.True(t, log.V(1).Enabled())
	require.False(t, log.V(2).Enabled())
}
