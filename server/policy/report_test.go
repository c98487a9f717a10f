package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/config"
)

func TestAReportTellsOfAPolicyThatIsGoneThoughNobodyWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy, failurePolicy: UseBuiltIn}}\nnodeAgent: {soothing: {plugin: example.io/policy}}\n")
	require.Equal(t, &Report{ConcurrentBackups: 3, Policies: []Status{
		{Kind: "QueueAdmission", Plugin: "example.io/policy", FailurePolicy: config.UseBuiltIn, Decides: "example.io/policy"},
		{Kind: "LoadSoothing", Plugin: "example.io/policy", FailurePolicy: config.Hold, Decides: "example.io/policy"},
	}}, s.Report(3))
	require.NoError(t, os.Remove(s.binary()))
	require.NoError(t, s.host.Rescan(t.Context()))
	report := s.Report(3)
	admission := report.Of("QueueAdmission")
	require.Equal(t, ReasonUnavailable, admission.Reason)
	require.Contains(t, admission.Message, "example.io/policy")
	require.Equal(t, BuiltInAdmission, admission.Decides)
	require.Zero(t, admission.Failures, "it was not asked")
	require.Empty(t, report.Of("LoadSoothing").Decides)
	require.Nil(t, report.Of("ManifestWriter"))

	_, err := s.Admission.Decide(t.Context(), queue())
	require.NoError(t, err)
	require.Equal(t, noon(), s.Report(3).Of("QueueAdmission").Since)
	s.install(t)
	require.Equal(t, ReasonUnavailable, s.Report(3).Of("QueueAdmission").Reason, "it has to do better first")
	_, err = s.Admission.Decide(t.Context(), queue())
	require.NoError(t, err)
	require.True(t, s.Report(3).Of("QueueAdmission").Working())
}

func TestAReportFitsIntoItsAnnotation(t *testing.T) {
	t.Parallel()
	r := &Report{ConcurrentBackups: 2}
	for range 50 {
		r.Policies = append(r.Policies, Status{Kind: "ManifestWriter", Plugin: "example.io/writer", Reason: ReasonFailed, Message: strings.Repeat("größer ", 1000), Since: noon()})
	}
	text, err := r.Encode()
	require.NoError(t, err)
	require.Less(t, len(text), 30<<10)
	read, err := DecodeReport(text)
	require.NoError(t, err)
	require.Equal(t, 2, read.ConcurrentBackups)
	require.Len(t, read.Policies, 50)
	require.Regexp(t, `^größer .* \.\.\.$`, read.Policies[49].Message)
	require.Equal(t, noon(), read.Policies[49].Since)
	require.Greater(t, len(r.Policies[0].Message), 1000, "the report itself stays as it is")

	read, err = DecodeReport(`{"policies":[{"kind":"QueueAdmission","plugin":"a.b/c","color":"red"}],"more":1}`)
	require.NoError(t, err)
	require.Equal(t, "a.b/c", read.Of("QueueAdmission").Plugin)
	for text, want := range map[string]string{
		"{":                              "annotation cleat.dev/policies of the server's answer is no report of policies: ",
		`{"policies":[{"kind":"K"}]}`:    "annotation cleat.dev/policies of the server's answer: policies[0] has no kind or no plugin",
		`{"concurrentBackups":"plenty"}`: "is no report of policies: ",
	} {
		_, err := DecodeReport(text)
		require.ErrorContains(t, err, want)
	}
}
