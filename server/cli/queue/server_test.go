package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func TestPoliciesOfMissingAndBadReport(t *testing.T) {
	t.Parallel()
	answer := &velerov1.ServerStatusRequest{}
	report, err := PoliciesOf(answer)
	require.NoError(t, err)
	require.Nil(t, report)
	answer.Annotations = map[string]string{serverreport.PoliciesAnnotation: "{"}
	_, err = PoliciesOf(answer)
	require.ErrorContains(t, err, "annotation cleat.dev/policies of the server's answer is not a report of policies")
}
