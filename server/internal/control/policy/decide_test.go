package policy

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// queue returns a snapshot with one free slot and three waiting backups.
func queue() *queueadmission.Snapshot {
	return &queueadmission.Snapshot{Input: queueadmission.Input{Now: noon(), Limit: 1,
		Queued: []queueadmission.Backup{{Name: "a"}, {Name: "b"}, {Name: "c"}}}}
}

func load() *loadsoothing.Request {
	return &loadsoothing.Request{Input: loadsoothing.Input{Now: noon(), Limit: 5,
		Load: loadsoothing.Load{Kind: "DataUpload", Name: "u", Created: noon()}}}
}

func TestBuiltInsDecideWithoutConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	decided, err := s.Admission.Decide(t.Context(), queue())
	require.NoError(t, err)
	require.Equal(t, config.DefaultAdmission, decided.By)
	require.NoError(t, decided.Failure)
	require.Equal(t, []string{"a"}, decided.Decision.Admit)
	require.Len(t, decided.Decision.Waiting, 2)
	admitted, err := s.Soothing.Admit(t.Context(), load())
	require.NoError(t, err)
	require.Equal(t, config.DefaultSoothing, admitted.By)
	require.True(t, admitted.Decision.Admitted)
	require.Equal(t, []serverreport.Policy{
		{Kind: "QueueAdmission", Plugin: config.DefaultAdmission, FailurePolicy: config.Hold,
			Decides: config.DefaultAdmission,
			Since:   noon()},
		{Kind: "LoadSoothing", Plugin: config.DefaultSoothing, FailurePolicy: config.Hold, Decides: config.DefaultSoothing,
			Since: noon()},
		{Kind: "ManifestWriter", Plugin: "cleat.dev/manifest", FailurePolicy: config.Warn, Decides: "cleat.dev/manifest"},
	}, s.Status())
}

func TestNoPolicyIsCalledForEmptyQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy, config: {do: die}}}\n")
	decided, err := s.Admission.Decide(t.Context(), &queueadmission.Snapshot{Input: queueadmission.Input{Limit: 1}})
	require.NoError(t, err)
	require.Equal(t, &queueadmission.Decision{}, decided.Decision)
}

// failures returns the ways in which a decision can fail: the settings in the file, and the expected reason and
// message.
func failures() map[string]struct{ settings, reason, message string } {
	return map[string]struct{ settings, reason, message string }{
		"hanging": {"plugin: example.io/policy, deadline: 1s, config: {do: hang}", ReasonOverdue, "within 1s"},
		"dying":   {"plugin: example.io/policy, deadline: 5m, config: {do: die}", ReasonDied, ": exit status 3"},
		"wrong": {"plugin: example.io/policy, deadline: 5m, config: {do: answer wrong}", ReasonInvalidReply,
			"invalid reply: "},
		"failing": {"plugin: example.io/policy, deadline: 5m, config: {do: fail}", ReasonFailed,
			"(example.io/policy): the calendar cannot be reached"},
		"absent":     {"plugin: example.io/none", ReasonUnavailable, `"example.io/none"; known are: `},
		"quarantine": {"plugin: example.io/broken", ReasonUnavailable, "; quarantined: "},
		"other kind": {"plugin: example.io/second", ReasonUnavailable, `"example.io/second" is not a `},
		"bad config": {"plugin: example.io/policy, config: {do: 5}", ReasonConfigRefused,
			"it does not take its config: cleat.yaml:2: "},
	}
}

func TestFailureHoldsOrUsesBuiltIn(t *testing.T) {
	t.Parallel()
	for name, test := range failures() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := newSite(t, "backups: {admission: {"+test.settings+"}, manifestWriters: []}\nnodeAgent: {soothing: {"+
				test.settings+", failurePolicy: UseBuiltIn}}\n")
			_, err := hold.Admission.Decide(t.Context(), queue())
			require.ErrorIs(t, err, ErrHeld)
			var held *HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, test.reason, held.Status.Reason)
			require.ErrorContains(t, err, "held (failurePolicy: Hold): QueueAdmission(")
			require.ErrorContains(t, err, test.message)

			admitted, err := hold.Soothing.Admit(t.Context(), load())
			require.NoError(t, err)
			require.True(t, admitted.Decision.Admitted)
			require.Equal(t, config.DefaultSoothing, admitted.By)
			require.ErrorContains(t, admitted.Failure, "LoadSoothing(")

			for i, status := range hold.Status() {
				require.False(t, status.Working())
				require.Equal(t, []string{"", config.DefaultSoothing}[i], status.Decides)
				require.Equal(t, test.reason, status.Reason)
				require.Equal(t, 1, status.Failures)
				require.NotContains(t, status.Message, "\n")
				require.Equal(t, 1.0, hold.count(t, "cleat_policy_failures_total", status.Kind, status.Plugin, test.reason))
				require.Equal(t, 1.0, hold.count(t, "cleat_policy_failing", status.Kind, status.Plugin))
			}
		})
	}
}

func TestTheOtherWayRound(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy, failurePolicy: UseBuiltIn, config: {do: answer "+
		"wrong}}}\n"+
		"nodeAgent: {soothing: {plugin: example.io/policy, failurePolicy: Hold, config: {do: answer wrong}}}\n")
	decided, err := s.Admission.Decide(t.Context(), queue())
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, decided.Decision.Admit)
	require.Equal(t, config.DefaultAdmission, decided.By)
	require.ErrorContains(t, decided.Failure, `admits "stranger"`)
	_, err = s.Soothing.Admit(t.Context(), load())
	require.ErrorIs(t, err, ErrHeld)
}

func TestWorkingPluginDecides(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy}}\nnodeAgent: {soothing: {plugin: "+
		"example.io/policy}}\n")
	decided, err := s.Admission.Decide(t.Context(), queue())
	require.NoError(t, err)
	require.Equal(t, Outcome[*queueadmission.Decision]{By: "example.io/policy", Decision: &queueadmission.Decision{
		Admit: []string{"c"},
		Waiting: []queueadmission.Waiting{
			{Name: "a", Reason: "NotLast", Message: "the last is the first"}, {Name: "b", Reason: "NotLast",
				Message: "the last is the first"},
		},
	}}, decided)
	admitted, err := s.Soothing.Admit(t.Context(), load())
	require.NoError(t, err)
	require.Equal(t, &loadsoothing.Decision{Reason: "never"}, admitted.Decision)
}

func TestFailureIsLoggedOncePerChangeAndCountedEachTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy}}\n")
	ask := func() error {
		_, err := s.Admission.Decide(t.Context(), queue())
		return err
	}
	require.NoError(t, ask())
	require.NoError(t, os.Remove(s.binary()))
	require.NoError(t, s.host.Rescan(t.Context()))
	for range 3 {
		require.ErrorIs(t, ask(), ErrHeld)
	}
	require.Len(t, s.log.with("policy fails"), 1)
	require.Contains(t, s.log.with("policy fails")[0],
		"plugin=example.io/policy failurePolicy=Hold reason=PluginUnavailable")
	require.Equal(t, 3, s.Admission.Status().Failures)
	require.Equal(t, 3.0, s.count(t, "cleat_policy_failures_total", "QueueAdmission", "example.io/policy",
		ReasonUnavailable))

	s.install(t)
	require.NoError(t, ask())
	require.NoError(t, ask())
	require.Len(t, s.log.with("policy fails"), 1)
	require.Len(t, s.log.with("policy works again"), 1)
	require.True(t, s.Admission.Status().Working())
	require.Zero(t, s.count(t, "cleat_policy_failing", "QueueAdmission", "example.io/policy"))
}

// install writes the plugin into the directory, each time as a file with different content.
func (s *site) install(t *testing.T) {
	t.Helper()
	binary, err := buildPolicy()
	require.NoError(t, err)
	content, err := os.ReadFile(binary)
	require.NoError(t, err)
	s.installed++
	content = append(content, make([]byte, s.installed)...) // after the part that the system reads
	writeProgram(t, s.binary()+".new", content)
	require.NoError(t, os.Rename(s.binary()+".new", s.binary()))
	require.NoError(t, s.host.Rescan(t.Context()))
}

func TestReplacedPluginMustAcceptConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  admission:\n    plugin: example.io/policy\n    config: {do: nothing}\n")
	ask := func() error {
		_, err := s.Admission.Decide(t.Context(), queue())
		return err
	}
	require.NoError(t, ask())

	require.NoError(t, os.WriteFile(s.schema, []byte(`{"additionalProperties": false, "properties": {"action": {}}}`),
		0o600))
	s.install(t)
	err := ask()
	require.ErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, "cleat.yaml:5: backups.admission.config.do: unknown key; known are action")
	require.Equal(t, ReasonConfigRefused, s.Admission.Status().Reason)

	// The framework accepts this schema, but the server does not: the type does not exist.
	require.NoError(t, os.WriteFile(s.schema, []byte(`{"properties": {"other": {"type": "objekt"}}}`), 0o600))
	s.install(t)
	require.NoError(t, ask())
	require.NoError(t, ask())
	require.Len(t, s.log.with("the config of a policy is not checked"), 1)
}

func TestCancelledCallIsNoPluginFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/policy, config: {do: hang}}}\n")
	shutdown := errors.New("the server stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(shutdown)
	_, err := s.Admission.Decide(ctx, queue())
	require.ErrorIs(t, err, shutdown)
	require.NotErrorIs(t, err, ErrHeld)
	require.True(t, s.Admission.Status().Working())
	require.Empty(t, s.log.with("policy fails"))
}

func TestFailureHoldsWhenBuiltInFailsToo(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {admission: {plugin: example.io/none, failurePolicy: UseBuiltIn}}\n")
	s.Admission.policy.builtIn = "example.io/nor-this"
	_, err := s.Admission.Decide(t.Context(), queue())
	require.ErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, "example.io/none")
	require.ErrorContains(t, err, "and the built-in one in its place: QueueAdmission(example.io/nor-this): ")
	require.Equal(t, 1, strings.Count(err.Error(), "failurePolicy"))
}
