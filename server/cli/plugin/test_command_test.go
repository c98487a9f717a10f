package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/test/programs"
)

func TestPluginTestReportsAndFails(t *testing.T) {
	t.Parallel()
	binary := programs.Build(t, clitest.BrokenPlugin)
	run := func(t *testing.T, args ...string) (string, error) {
		return executePlugin(t, append([]string{"plugin", "test", binary}, args...)...)
	}
	for name, test := range map[string]func(t *testing.T){
		"a plugin without a fault": func(t *testing.T) {
			out, err := run(t, "--plugin", "example.io/keep")
			require.NoError(t, err)
			require.Contains(t, out, "example.io/keep")
			require.NotContains(t, out, "example.io/panic")
			require.Contains(t, out, "0 failed, 0 warnings")
		},
		"a plugin that panics": func(t *testing.T) {
			out, err := run(t, "--plugin", "example.io/panic")
			require.ErrorIs(t, err, command.ErrQuiet)
			require.Contains(t, out, "failed: BackupItemAction example.io/panic: action-item\n")
			require.Contains(t, out, "Seen: asked about Pod in-conformance/sample: rpc error: code = Aborted desc = plugin "+
				"panicked: runtime error")
			require.Contains(t, out, "skipped: BackupItemAction example.io/panic: action-reply-item")
		},
		"in JSON": func(t *testing.T) {
			out, err := run(t, "--plugin", "example.io/panic", "-o", "json")
			require.ErrorIs(t, err, command.ErrQuiet)
			var report struct {
				Plugins []struct {
					Kind, Name string
					Results    []struct{ Rule, Outcome string }
				}
			}
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			require.Equal(t, "BackupItemAction", report.Plugins[1].Kind)
			require.Contains(t, report.Plugins[1].Results, struct{ Rule, Outcome string }{"action-item", "failed"})
		},
		"as JUnit": func(t *testing.T) {
			out, err := run(t, "--plugin", "example.io/panic", "-o", "junit")
			require.ErrorIs(t, err, command.ErrQuiet)
			var suites struct {
				Failures int `xml:"failures,attr"`
				Suites   []struct {
					Name  string `xml:"name,attr"`
					Cases []struct {
						Name    string  `xml:"name,attr"`
						Failure *string `xml:"failure"`
					} `xml:"testcase"`
				} `xml:"testsuite"`
			}
			require.NoError(t, xml.Unmarshal([]byte(out), &suites))
			require.Equal(t, 1, suites.Failures)
			require.Equal(t, "BackupItemAction example.io/panic", suites.Suites[1].Name)
		},
		"with an item": func(t *testing.T) {
			item := filepath.Join(t.TempDir(), "item.yaml")
			require.NoError(t, os.WriteFile(item, []byte("{apiVersion: example.io/v1, kind: Widget, metadata: {name: w}}"),
				0o600))
			out, err := run(t, "--plugin", "example.io/skip", "--item", item)
			require.NoError(t, err)
			require.Contains(t, out, "RestoreItemAction   example.io/skip")
		},
		"a store that forgets everything": func(t *testing.T) {
			out, err := run(t, "--plugin", "example.io/memory", "--config", "bucket=test")
			require.ErrorIs(t, err, command.ErrQuiet)
			require.Contains(t, out, "failed: ObjectStore example.io/memory: store-restart\n")
			require.NotContains(t, out, "skipped: ObjectStore")
		},
		"a plugin that is not served": func(t *testing.T) {
			_, err := run(t, "--plugin", "example.io/nobody")
			require.ErrorContains(t, err, "serves no plugin named example.io/nobody; it serves: example.io/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func TestPluginTestErrors(t *testing.T) {
	t.Parallel()
	item := filepath.Join(t.TempDir(), "item.yaml")
	require.NoError(t, os.WriteFile(item, []byte("kind: Widget"), 0o600))
	ends := filepath.Join(t.TempDir(), "ends")
	programs.Write(t, ends, []byte("#!/bin/sh\nexit 0\n"))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no binary":     {nil, "requires at least 1 arg"},
		"unknown form":  {[]string{"x", "-o", "xml"}, `--output "xml": want table, json or junit`},
		"no value":      {[]string{"x", "--config", "bucket"}, `config "bucket" must be KEY=VALUE`},
		"no such item":  {[]string{"x", "--item", "/nowhere.yaml"}, "--item: open /nowhere.yaml"},
		"no file":       {[]string{"/nowhere/plugin"}, "/nowhere/plugin: no such file or directory"},
		"a directory":   {[]string{"."}, ". is a directory, not a plugin"},
		"no program":    {[]string{item}, "item.yaml is not a plugin: it is not executable (chmod +x "},
		"no snapshot":   {[]string{"x", "--snapshot", "/nowhere.yaml"}, "--snapshot: open /nowhere.yaml"},
		"no variable":   {[]string{"x", "--env", "NAME"}, `--env "NAME" must be NAME=VALUE`},
		"a broken item": {[]string{ends, "--item", item}, "item 1: it has no apiVersion, kind or metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := executePlugin(t, append([]string{"plugin", "test"}, test.args...)...)
			require.ErrorContains(t, err, test.want)
		})
	}
	out, err := executePlugin(t, "plugin", "test", ends)
	require.ErrorIs(t, err, command.ErrQuiet, "what does not start is not conformant")
	require.Contains(t, out, "failed: Process: process-handshake")
}

func TestInterruptedPluginTestPrintsWhatItHas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	app := &command.App{
		Streams: command.Streams{Out: &out, Err: io.Discard},
		Args:    []string{"plugin", "test", programs.Build(t, clitest.BrokenPlugin), "-o", "json"},
	}
	root := command.NewRoot(app, NewCommand(app))
	time.AfterFunc(time.Second, cancel)
	err := root.ExecuteContext(ctx)
	require.ErrorContains(t, err, "the test was interrupted before all rules were checked: context canceled")
	var report struct {
		Interrupted bool
		Plugins     []struct {
			Results []struct{ Rule, Outcome, Seen string }
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.True(t, report.Interrupted)
	last := report.Plugins[0].Results[len(report.Plugins[0].Results)-1]
	require.Equal(t, "skipped", last.Outcome)
	require.Contains(t, last.Seen, "interrupted")
}

func TestPluginTestListsRules(t *testing.T) {
	t.Parallel()
	out, err := executePlugin(t, "plugin", "test", "--rules")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, "RULE"))
	require.Contains(t, out, "\naction-item ")
	out, err = executePlugin(t, "plugin", "test", "--rules", "-o", "json")
	require.NoError(t, err)
	var rules []struct{ ID, Severity, Text string }
	require.NoError(t, json.Unmarshal([]byte(out), &rules))
	require.Equal(t, "process-handshake", rules[0].ID)
}

func TestPluginTestPrintsProgressWhileARuleTakesLong(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	progress := newTestProgress(writer, "./store", time.Millisecond)
	progress.tell(conformance.Progress{Kind: "ObjectStore", Name: "example.io/slow", Rule: "store-list-many", Done: 7,
		Total: 50})
	lines := bufio.NewScanner(reader)
	const want = "./store: 7 of 50 rules checked, now: ObjectStore example.io/slow store-list-many"
	for seen := 0; seen < 2; { // the first line may be older than the call of tell
		require.True(t, lines.Scan())
		if lines.Text() == want {
			seen++
		}
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	progress.end()
}
