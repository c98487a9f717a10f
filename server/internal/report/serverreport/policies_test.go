package serverreport

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPolicyReportFitsIntoAnnotation(t *testing.T) {
	t.Parallel()
	r := &PolicyReport{ConcurrentBackups: 2}
	for range 50 {
		r.Policies = append(r.Policies, Policy{Kind: "ManifestWriter", Plugin: "example.io/writer", Reason: "Failed",
			Message: strings.Repeat("größer ", 1000), Since: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)})
	}
	text, err := r.Encode()
	require.NoError(t, err)
	require.Less(t, len(text), 30<<10)
	read, err := DecodePolicies(text)
	require.NoError(t, err)
	require.Equal(t, 2, read.ConcurrentBackups)
	require.Len(t, read.Policies, 50)
	require.Regexp(t, `^größer .*\.\.\.$`, read.Policies[49].Message)
	require.Equal(t, time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), read.Policies[49].Since)
	require.Greater(t, len(r.Policies[0].Message), 1000, "the report itself is not changed")

	read, err = DecodePolicies(`{"policies":[{"kind":"QueueAdmission","plugin":"a.b/c","color":"red"}],"more":1}`)
	require.NoError(t, err)
	require.Equal(t, "a.b/c", read.Of("QueueAdmission").Plugin)
	for text, want := range map[string]string{
		"{": "annotation cleat.dev/policies of the server's answer is not a report of " +
			"policies: ",
		`{"policies":[{"kind":"K"}]}`: "annotation cleat.dev/policies of the server's answer: policies[0] has no kind " +
			"or no plugin",
		`{"concurrentBackups":"plenty"}`: "is not a report of policies: ",
	} {
		_, err := DecodePolicies(text)
		require.ErrorContains(t, err, want)
	}
}
