package status

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

func TestQueueTable(t *testing.T) {
	t.Parallel()
	document := NewQueue("velero", queue.NewLine(statustest.Queue()), QueueServer{Limit: 2, Policy: statustest.Policy("")})
	statustest.Golden(t, "queue.txt", QueueTable(document.Items, statustest.Noon()).Print)
	statustest.Golden(t, "queue.json", func(w io.Writer) error { return layout.PrintJSON(w, document) })
}

func TestQueueServerText(t *testing.T) {
	t.Parallel()
	instead := statustest.Policy(policy.ReasonDied)
	instead.FailurePolicy, instead.Decides = "UseBuiltIn", config.DefaultAdmission
	gone := statustest.Policy(policy.ReasonUnavailable)
	gone.Since = time.Time{}
	for want, told := range map[string]QueueServer{
		"2 of 3 slots in use; policy example.io/policy decides": {Limit: 3, Policy: statustest.Policy("")},
		"2 of 1 slot in use": {Limit: 1},
		"2 of 3 slots in use; policy example.io/policy fails since 2026-03-04 11:55:00 +0000 UTC (5m ago), " +
			"no backup starts until it works again (failurePolicy: Hold): QueueAdmission(example.io/policy): it is down": {Limit: 3, Policy: statustest.Policy(policy.ReasonDied)},
		"2 of 3 slots in use; policy example.io/policy fails since 2026-03-04 11:55:00 +0000 UTC (5m ago), " +
			"cleat.dev/namespace-overlap decides instead (failurePolicy: UseBuiltIn): QueueAdmission(example.io/policy): it " +
			"is down": {Limit: 3, Policy: instead},
		"2 of 3 slots in use; policy example.io/policy fails, " +
			"no backup starts until it works again (failurePolicy: Hold): QueueAdmission(example.io/policy): it is down": {Limit: 3, Policy: gone},
		"The number of slots is not known: no answer": {Problem: "no answer"},
	} {
		require.Equal(t, want, told.Text(2, statustest.Noon()))
	}
}

func TestPolicyTable(t *testing.T) {
	t.Parallel()
	failing := statustest.Policy(policy.ReasonDied)
	failing.Kind = "LoadSoothing"
	var out bytes.Buffer
	require.NoError(t, PolicyTable([]serverreport.Policy{*statustest.Policy(""), *failing}, statustest.Noon()).Print(&out))
	require.Equal(t, `POLICY           PLUGIN              ON FAILURE   STATE
QueueAdmission   example.io/policy   Hold         works
LoadSoothing     example.io/policy   Hold         fails since 2026-03-04 11:55:00 +0000 UTC (5m ago): QueueAdmission(example.io/policy): it is down
`, out.String())
}
