package pluginhost

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/hostapi"
)

// chatty logs in each call about an operation.
type chatty struct{ biav2.BackupItemAction }

func (chatty) Progress(ctx context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	framework.Log(ctx).Info("half way", "operation", input.OperationID)
	return framework.OperationProgress{}, nil
}

func (chatty) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	framework.Log(ctx).Info("stopped", "operation", input.OperationID)
	return nil
}

// What a built-in logs in a call outside of sessions is in the log of the run that the call is made for, though another
// run has a session.
func TestLinesOfCallsOutsideOfSessions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run         string
		here, there bool // in the log of the run, in that of the server
	}{
		"for a run":                     {run: "run-a", here: true},
		"for a run without an open log": {run: "run-c", there: true},
		"for no run":                    {there: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own, other lines
			h := newTestHost(t, "", func(c *Config) {
				c.BuiltIns = []framework.Registration{biav2.Register("example.io/chatty",
					func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
						return chatty{}, nil
					})}
				c.Logs = func(run string) hclog.Logger {
					if run == "run-a" {
						return own.logger()
					}
					return nil
				}
			})
			session := h.Session("run-b", other.logger())
			defer session.Close()
			action := actionNamed(t, h.Host, "example.io/chatty")
			ctx := ForOperations(t.Context(), test.run)
			_, err := action.Progress(ctx, "op-1", []byte(`{}`))
			require.NoError(t, err)
			require.NoError(t, action.Cancel(ctx, "op-1", []byte(`{}`)))
			for _, line := range []string{"half way", "stopped"} {
				require.Equal(t, test.here, strings.Contains(own.String(), line), line)
				require.Equal(t, test.there, strings.Contains(h.log.String(), line), line)
				require.False(t, strings.Contains(other.String(), line), line)
			}
			require.NotContains(t, own.String()+h.log.String(), hostapi.RunKey)

			_, err = actionNamed(t, session, "example.io/chatty").Progress(t.Context(), "op-2", []byte(`{}`))
			require.NoError(t, err)
			require.Contains(t, other.String(), "operation=op-2")
			require.NotContains(t, other.String(), hostapi.RunKey)
		})
	}
}
