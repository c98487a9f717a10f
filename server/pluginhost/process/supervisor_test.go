package process

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/pluginhost/output"
)

func TestPluginLinesWithoutASessionGoToTheServersLog(t *testing.T) {
	t.Parallel()
	var server, own bytes.Buffer
	s := &Supervisor{log: logTo(&server)}
	s.line(output.Line{Level: hclog.Info, Message: "starting"})
	s.readers.add("a session", logTo(&own))
	s.line(output.Line{Level: hclog.Info, Message: "working"})
	require.Contains(t, server.String(), "starting")
	require.NotContains(t, server.String(), "working")
	require.Contains(t, own.String(), "working")
	require.NotContains(t, own.String(), "starting")
}

func logTo(w io.Writer) hclog.Logger { return hclog.New(&hclog.LoggerOptions{Output: w}) }
