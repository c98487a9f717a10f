package cli

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/policy"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// aPolicy is one that fails for a reason since five minutes before noon, and in whose place nobody decides; without a
// reason one that works.
func aPolicy(reason string) *serverreport.Policy {
	status := &serverreport.Policy{Kind: "QueueAdmission", Plugin: "example.io/policy", FailurePolicy: "Hold", Decides: "example.io/policy", Since: at(-5 * time.Minute).Time}
	if reason != "" {
		status.Decides, status.Reason, status.Failures = "", reason, 3
		status.Message = "QueueAdmission(example.io/policy): it is\ndown"
	}
	return status
}

func TestWhatTheServerSaysOfItsQueue(t *testing.T) {
	t.Parallel()
	instead := aPolicy(policy.ReasonDied)
	instead.FailurePolicy, instead.Decides = "UseBuiltIn", policy.BuiltInAdmission
	gone := aPolicy(policy.ReasonUnavailable)
	gone.Since = time.Time{}
	for want, told := range map[string]queueServer{
		"2 of 3 places taken; policy example.io/policy decides": {Limit: 3, Policy: aPolicy("")},
		"2 of 1 place taken": {Limit: 1},
		"2 of 3 places taken; policy example.io/policy fails since 2026-03-04 11:55:00 +0000 UTC (5m ago), " +
			"nobody starts until it works again (failurePolicy: Hold): QueueAdmission(example.io/policy): it is down": {Limit: 3, Policy: aPolicy(policy.ReasonDied)},
		"2 of 3 places taken; policy example.io/policy fails since 2026-03-04 11:55:00 +0000 UTC (5m ago), " +
			"cleat.dev/namespace-overlap decides in its place (failurePolicy: UseBuiltIn): QueueAdmission(example.io/policy): it is down": {Limit: 3, Policy: instead},
		"2 of 3 places taken; policy example.io/policy fails, " +
			"nobody starts until it works again (failurePolicy: Hold): QueueAdmission(example.io/policy): it is down": {Limit: 3, Policy: gone},
		"How many places there are is not known: no answer": {Problem: "no answer"},
	} {
		require.Equal(t, want, told.text(2, noon()))
	}
}

func TestAnAnswerWithoutOrWithABadReportOfPolicies(t *testing.T) {
	t.Parallel()
	answer := &velerov1.ServerStatusRequest{}
	report, err := policiesOf(answer)
	require.NoError(t, err)
	require.Nil(t, report)
	answer.Annotations = map[string]string{serverreport.PoliciesAnnotation: "{"}
	_, err = policiesOf(answer)
	require.ErrorContains(t, err, "annotation cleat.dev/policies of the server's answer is no report of policies")
}

func TestAPolicyThatFailsIsNotedOnceInAPipe(t *testing.T) {
	t.Parallel()
	var notes bytes.Buffer
	view := &changes{notes: &notes, write: textChanges(io.Discard), now: noon}
	for _, told := range []queueServer{
		{Limit: 1, Policy: aPolicy("")}, {Limit: 1, Policy: aPolicy(policy.ReasonDied)}, {Limit: 1, Policy: aPolicy(policy.ReasonFailed)},
		{Problem: "no answer"}, {Limit: 1, Policy: aPolicy("")}, {Limit: 1, Policy: aPolicy("")},
	} {
		view.server(told)
	}
	require.Equal(t, "policy example.io/policy fails since 2026-03-04 11:55:00 +0000 UTC (5m ago), nobody starts until it works again "+
		"(failurePolicy: Hold): QueueAdmission(example.io/policy): it is down\npolicy example.io/policy works again\n", notes.String())
}

func TestPoliciesAreShownBelowThePlugins(t *testing.T) {
	t.Parallel()
	failing := aPolicy(policy.ReasonDied)
	failing.Kind = "LoadSoothing"
	var out bytes.Buffer
	require.NoError(t, policyTable([]serverreport.Policy{*aPolicy(""), *failing}, noon()).Print(&out))
	require.Equal(t, `POLICY           PLUGIN              ON FAILURE   STATE
QueueAdmission   example.io/policy   Hold         works
LoadSoothing     example.io/policy   Hold         fails since 2026-03-04 11:55:00 +0000 UTC (5m ago): QueueAdmission(example.io/policy): it is down
`, out.String())
}
