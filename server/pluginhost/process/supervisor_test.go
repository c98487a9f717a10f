package process

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/pluginhost/output"
)

func TestLinesWithoutSessionGoToServerLog(t *testing.T) {
	t.Parallel()
	var server, own bytes.Buffer
	s := &Supervisor{log: logTo(&server)}
	s.line(output.Line{Level: hclog.Info, Message: "starting"})
	s.readers.add("a session", "run-1", logTo(&own))
	s.line(output.Line{Level: hclog.Info, Message: "working"})
	require.Contains(t, server.String(), "starting")
	require.NotContains(t, server.String(), "working")
	require.Contains(t, own.String(), "working")
	require.NotContains(t, own.String(), "starting")
}

func TestLineOfCallGoesOnlyToItsRun(t *testing.T) {
	t.Parallel()
	var server, first, second bytes.Buffer
	s := &Supervisor{log: logTo(&server)}
	s.readers.add("first", "run-1", logTo(&first))
	s.readers.add("second", "run-2", logTo(&second))
	s.line(output.Line{Level: hclog.Info, Message: "of one call", Run: "run-2"})
	s.line(output.Line{Level: hclog.Info, Message: "of the process"})
	s.line(output.Line{Level: hclog.Info, Message: "of a run that has ended", Run: "run-0"})
	require.NotContains(t, first.String(), "of one call")
	require.Contains(t, second.String(), "of one call")
	require.Contains(t, first.String(), "of the process")
	require.Contains(t, second.String(), "of the process")
	for _, log := range []string{first.String(), second.String()} {
		require.NotContains(t, log, "of a run that has ended")
	}
	require.Contains(t, server.String(), "of a run that has ended")
	require.NotContains(t, server.String(), "of one call")
}

func logTo(w io.Writer) hclog.Logger { return hclog.New(&hclog.LoggerOptions{Output: w}) }
