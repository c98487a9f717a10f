package conformance_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// resultOf returns the result of one rule on the plugin of a kind.
func resultOf(t *testing.T, report *conformance.Report, kind, rule string) conformance.Result {
	t.Helper()
	for _, plugin := range report.Plugins {
		for _, result := range plugin.Results {
			if plugin.Kind == kind && result.Rule == rule {
				return result
			}
		}
	}
	require.FailNow(t, "no such result", "%s: %s", kind, rule)
	return conformance.Result{}
}

func TestInterruptedRunReportsWhatItHas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	errEnough := errors.New("enough")
	report, err := conformance.Run(ctx, conformance.Binary(program(t, "first-plugin")),
		conformance.WithProgress(func(now conformance.Progress) {
			if now.Rule == "action-item" {
				cancel(errEnough)
			}
		}))
	require.ErrorIs(t, err, errEnough)
	require.True(t, report.Interrupted)
	require.False(t, report.Conformant())
	require.Zero(t, report.Count(conformance.Failed)+report.Count(conformance.Warned),
		"a check that was cut short is not held against the plugin")
	require.Equal(t, conformance.Passed, resultOf(t, report, "Process", "process-handshake").Outcome)
	left := resultOf(t, report, "Process", "process-sigterm")
	require.Equal(t, conformance.Skipped, left.Outcome)
	require.Contains(t, left.Seen, "interrupted")
}

func TestPolicyThatAdmitsNothingSkipsRulesAboutAdmission(t *testing.T) {
	t.Parallel()
	binary := program(t, "defects")
	report, err := conformance.Run(t.Context(), conformance.Binary(binary, "--kind", "QueueAdmission", "--closed"),
		conformance.WithLeakCalls(0))
	require.NoError(t, err)
	require.True(t, report.Conformant())
	for _, rule := range []string{"queue-limit", "queue-complete", "queue-many"} {
		result := resultOf(t, report, "QueueAdmission", rule)
		require.Equal(t, conformance.Skipped, result.Outcome, rule)
		require.Contains(t, result.Seen, "it admitted nothing")
	}
	require.Equal(t, conformance.Skipped, resultOf(t, report, "QueueAdmission", "queue-recheck").Outcome)
	require.Equal(t, conformance.Passed, resultOf(t, report, "QueueAdmission", "queue-waits").Outcome)

	// It admits what is labelled so, which only a snapshot of the caller has.
	report, err = conformance.Run(t.Context(), conformance.Binary(binary, "--kind", "QueueAdmission", "--closed"),
		conformance.WithLeakCalls(0),
		conformance.WithSnapshot([]byte("{limit: 1, queued: [{name: a, labels: {open: sesame}}]}")))
	require.NoError(t, err)
	require.Equal(t, conformance.Passed, resultOf(t, report, "QueueAdmission", "queue-limit").Outcome)
}

func TestPluginIsStartedAsTheServerStartsIt(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv(ownVariable))
	seen := filepath.Join(t.TempDir(), "seen")
	script := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >"+seen+"\npwd >>"+seen+"\nenv >>"+seen+
		"\nexit 1\n"), 0o755))
	report, err := conformance.Run(t.Context(), conformance.Binary(script),
		conformance.WithEnvironment("EXAMPLE_ENDPOINT=https://x"))
	require.NoError(t, err)
	require.Equal(t, conformance.Failed, resultOf(t, report, "Process", "process-handshake").Outcome)
	written, err := os.ReadFile(seen)
	require.NoError(t, err)
	lines := strings.Split(string(written), "\n")
	require.True(t, strings.HasSuffix(lines[0], "/plugin --features= --log-level=info"), lines[0])
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, here, lines[1])
	require.Contains(t, lines, "EXAMPLE_ENDPOINT=https://x")
	require.Contains(t, lines, "PATH="+os.Getenv("PATH"))
	require.Contains(t, lines, "VELERO_PLUGIN=hello")
	require.Contains(t, string(written), "\nPLUGIN_CLIENT_CERT=-----BEGIN CERTIFICATE-----\n")
	require.Contains(t, lines, ownVariable+"=x")
}

func TestItemOfTheCallerSkipsNoRuleThatOthersPass(t *testing.T) {
	t.Parallel()
	item := []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: b}}")
	with := func(options ...conformance.Option) map[string]bool {
		report, err := conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--kind",
			"AsyncBackupItemAction"),
			append(options, conformance.WithLeakCalls(0))...)
		require.NoError(t, err)
		require.True(t, report.Conformant())
		skipped := map[string]bool{}
		for _, plugin := range report.Plugins {
			for _, result := range plugin.Results {
				if result.Outcome == conformance.Skipped {
					skipped[result.Rule] = true
				}
			}
		}
		return skipped
	}
	require.Equal(t, with(), with(conformance.WithItem(item)))
}
