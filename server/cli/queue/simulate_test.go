package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

const scenario = "testdata/backups.yaml"

// simulate runs "queue simulate" on the example.
func simulate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return clitest.Execute(t, NewCommand, append([]string{"queue", "simulate", "-f", scenario}, args...)...)
}

func TestSimulateScenario(t *testing.T) {
	t.Parallel()
	out, err := simulate(t, "--concurrent-backups", "2")
	require.NoError(t, err)
	statustest.Golden(t, "queue_simulate.txt", func(w io.Writer) error {
		_, err := io.WriteString(w, out)
		return err
	})
	out, err = simulate(t, "--concurrent-backups", "2", "-o", "json")
	require.NoError(t, err)
	statustest.Golden(t, "queue_simulate.json", func(w io.Writer) error {
		_, err := io.WriteString(w, out)
		return err
	})
}

// simulated returns the document of "queue simulate" about a file with the given content.
func simulated(t *testing.T, content string, args ...string) status.Simulation {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backups.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	out, err := clitest.Execute(t, NewCommand, append([]string{"queue", "simulate", "-o", "json", "-f", path}, args...)...)
	require.NoError(t, err)
	var document status.Simulation
	require.NoError(t, json.Unmarshal([]byte(out), &document))
	return document
}

// backupOf returns a Backup as a YAML document. more follows its name.
func backupOf(name, more string) string {
	return fmt.Sprintf("---\napiVersion: velero.io/v1\nkind: Backup\nmetadata:\n  name: %s\n%s", name, more)
}

func TestSimulateOrderAndFirstRound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content string
		args    []string
		order   []string
		first   status.Round
	}{
		"the order is that of the file": {
			content: backupOf("c", "") + backupOf("a", "") + backupOf("b", ""),
			order:   []string{"c", "a", "b"},
		},
		"older ones and positions come first": {
			content: backupOf("new", "") + backupOf("old", "  creationTimestamp: 2020-01-01T00:00:00Z\n") +
				backupOf("second", "status: {phase: Queued, queuePosition: 2}\n") +
				backupOf("first", "status: {phase: Queued, queuePosition: 1}\n"),
			order: []string{"first", "second", "old", "new"},
		},
		"who has ended is left out, who runs or is ready has a place": {
			content: backupOf("done", "status: {phase: Completed}\n") + backupOf("finishing", "status: {phase: Finalizing}\n") +
				backupOf("runs", "spec: {includedNamespaces: [a]}\nstatus: {phase: InProgress}\n") +
				backupOf("ready", "spec: {includedNamespaces: [b]}\nstatus: {phase: ReadyToStart}\n") +
				backupOf("waits", "spec: {includedNamespaces: [c]}\n"),
			args: []string{"--concurrent-backups", "2"}, order: []string{"ready", "waits"},
			first: status.Round{Running: []string{"runs"}, Starts: []string{"ready"}, Ends: "runs"},
		},
		"patterns mean the namespaces that are named": {
			content: backupOf("a", "spec: {includedNamespaces: [\"shop-*\"]}\n") +
				backupOf("b", "spec: {includedNamespaces: [\"*-eu\"]}\n"),
			args: []string{"--concurrent-backups", "2", "--namespaces", "shop-eu,shop-us"}, order: []string{"a", "b"},
			first: status.Round{Starts: []string{"a"}, Ends: "a"},
		},
		"without an overlap both start": {
			content: backupOf("a", "spec: {includedNamespaces: [\"shop-*\"]}\n") +
				backupOf("b", "spec: {includedNamespaces: [\"*-eu\"]}\n"),
			args: []string{"--concurrent-backups", "2", "--namespaces", "shop-us,bank-eu"}, order: []string{"a", "b"},
			first: status.Round{Starts: []string{"a", "b"}, Ends: "a"},
		},
		"by priority": {
			content: backupOf("low", "") + backupOf("high", "  annotations: {cleat.dev/priority: \"9\"}\n"),
			args:    []string{"--policy", "cleat.dev/priority"}, order: []string{"high", "low"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := simulated(t, test.content, test.args...)
			require.Equal(t, test.order, document.Order)
			require.Empty(t, document.Stuck)
			if test.first.Ends != "" {
				got := document.Rounds[0]
				got.Round, got.Waiting = 0, nil
				require.Equal(t, test.first, got)
			}
		})
	}
}

func TestSimulatePolicyOfDirectory(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"policy": clitest.PolicyPlugin})
	document := simulated(t, backupOf("a", "")+backupOf("b", "")+backupOf("c", ""), "--plugin-dir", dir, "--policy",
		"example.io/policy")
	require.Equal(t, []string{"c", "b", "a"}, document.Order)
	require.Equal(t, "the last is the first", document.Rounds[0].Waiting[0].Message)

	config := filepath.Join(t.TempDir(), "cleat.yaml")
	write := func(text string) {
		require.NoError(t, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\n"+text), 0o600))
	}
	write("backups: {concurrent: 3, admission: {plugin: example.io/policy, config: {do: fail}}}\nplugins: {directory: " +
		dir + "}\n")
	_, err := simulate(t, "--config", config)
	require.EqualError(t, err, "round 1: held (failurePolicy: Hold): "+
		"QueueAdmission(example.io/policy): the calendar cannot be reached")
	write("backups: {concurrent: 3, admission: {plugin: example.io/policy, config: {doo: fail}}}\nplugins: {directory: " +
		dir + "}\n")
	_, err = simulate(t, "--config", config)
	require.ErrorContains(t, err, config+":2: backups.admission.config")
	write("backups:\n  admission: {plugin: cleat.dev/priority, config: {age: 0.5s}}\n")
	_, err = simulate(t, "--config", config)
	require.EqualError(t, err, config+":3: backups.admission.config.age: it is 500ms, want at least 1s",
		"what the policy itself checks")
	write("backups: {concurrent: 3, admission: {plugin: cleat.dev/fifo}}\nplugins: {directory: /not/here}\n")
	out, err := simulate(t, "--config", config)
	require.NoError(t, err, "what is asked is built in")
	require.Contains(t, out, "policy cleat.dev/fifo, 3 backups at once\n")
}

func TestSimulateErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no file":          {nil, `required flag(s) "filename" not set`},
		"a file not there": {[]string{"-f", "not-here"}, "read the backups: open not-here: no such file or directory"},
		"an empty file":    {[]string{"-f", "/dev/null"}, "/dev/null: contains no Backup"},
		"a policy": {[]string{"-f", scenario, "--policy", "example.io/x"},
			`(if it is in a plugin directory, use --plugin-dir): unknown QueueAdmission "example.io/x"; known are: cleat.dev/fifo`},
		"a directory": {[]string{"-f", scenario, "--plugin-dir", "not-here"},
			"look for plugins (name their directory with --plugin-dir): stat not-here"},
		"a namespace": {[]string{"-f", scenario, "--namespaces", "A"}, `--namespaces: "A": a lowercase RFC 1123 label`},
		"a limit": {[]string{"-f", scenario, "--concurrent-backups", "-1"},
			"--concurrent-backups is -1, want at least 1"},
		"an output":       {[]string{"-f", scenario, "-o", "wide"}, `--output "wide": want table, json or yaml`},
		"another command": {[]string{"-f", scenario, "more"}, `unknown command "more"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := clitest.Execute(t, NewCommand, append([]string{"queue", "simulate"}, test.args...)...)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// TestSimulationLeavesOutWhatServerCouldNotRead simulates the one good backup among many mistakes.
func TestSimulationLeavesOutWhatServerCouldNotRead(t *testing.T) {
	t.Parallel()
	_, problems, err := readBackups("testdata/mistakes.yaml", nil, statustest.Noon())
	require.NoError(t, err)
	statustest.Golden(t, "queue_mistakes.txt", func(w io.Writer) error {
		_, err := fmt.Fprintln(w, errors.Join(problems...))
		return err
	})
	out, err := simulate(t, "-f", "testdata/mistakes.yaml", "-o", "json")
	require.NoError(t, err)
	var done status.Simulation
	said, document, _ := strings.Cut(out, "{\n")
	require.Equal(t, len(problems), strings.Count(said, "Left out: testdata/mistakes.yaml:"))
	require.NoError(t, json.Unmarshal([]byte("{"+document), &done))
	require.Equal(t, []string{"good"}, done.Order)
	require.Len(t, done.LeftOut, len(problems))
	for i := range problems {
		require.EqualError(t, problems[i], done.LeftOut[i])
	}
}

func TestSimulationIgnoresWhatHasEnded(t *testing.T) {
	t.Parallel()
	const bad = "{apiVersion: velero.io/v1, kind: Backup, metadata: {name: %s}, spec: {includedNamespaces: [\"bad[\"], " +
		"ttl: 30d}, status: {phase: %s}}\n---\n"
	ended := fmt.Sprintf(bad+bad+bad, "a", "Completed", "a", "FailedValidation", "b", "Deleting")
	for name, tt := range map[string]struct {
		file    string
		queued  int
		problem string
	}{
		"ended ones alone": {file: ended},
		"beside one that waits": {file: ended + "{apiVersion: velero.io/v1, kind: Backup, metadata: {name: a}}",
			queued: 1},
		"one that waits cannot be read": {ended + fmt.Sprintf(bad, "c", "Queued"), 0, "is not a Backup"},
		"one that runs cannot be read":  {ended + fmt.Sprintf(bad, "c", "InProgress"), 0, "is not a Backup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backups, problems, err := parseBackups("x.yaml", []byte(tt.file), statustest.Noon())
			require.NoError(t, err)
			require.Len(t, backups, tt.queued)
			if tt.problem == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], tt.problem)
		})
	}
}
