package policy

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

func TestReportShowsMissingPolicyWithEmptyQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy, failurePolicy: UseBuiltIn}, manifestWriters: "+
		"[]}\nnodeAgent: {soothing: {plugin: example.io/policy}}\n")
	require.Equal(t, &serverreport.PolicyReport{ConcurrentBackups: 3, Policies: []serverreport.Policy{
		{Kind: "QueueAdmission", Plugin: "example.io/policy", FailurePolicy: config.UseBuiltIn, Decides: "example.io/policy"},
		{Kind: "LoadSoothing", Plugin: "example.io/policy", FailurePolicy: config.Hold, Decides: "example.io/policy"},
	}}, s.Report(3))
	require.NoError(t, os.Remove(s.binary()))
	require.NoError(t, s.host.Rescan(t.Context()))
	report := s.Report(3)
	admission := report.Of("QueueAdmission")
	require.Equal(t, ReasonUnavailable, admission.Reason)
	require.Contains(t, admission.Message, "example.io/policy")
	require.Equal(t, config.DefaultAdmission, admission.Decides)
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
