package pluginhost

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nodeplugin "github.com/cleat-dev/cleat/examples/node-plugin"
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// buildNodePlugin builds the plugin in JavaScript, once for all tests.
func buildNodePlugin(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil && os.Getenv("CI") == "" {
		t.Skip("npm is not installed")
	}
	path, err := builtNodePlugin()
	require.NoError(t, err)
	return path
}

var builtNodePlugin = sync.OnceValues(func() (string, error) {
	built, err := programs.NodePlugin(nodeplugin.Build)
	if err != nil {
		return "", err
	}
	path := filepath.Join(testBinaries, "node-plugin")
	return path, programs.CopyFile(built, path)
})

// nodeHost returns a host with the plugin in JavaScript, which keeps its copies in a folder of the test.
func nodeHost(t *testing.T, environment ...string) *testHost {
	t.Helper()
	binary := buildNodePlugin(t)
	dir, err := os.MkdirTemp(testBinaries, "plugins")
	require.NoError(t, err)
	require.NoError(t, os.Link(binary, filepath.Join(dir, "node-plugin")))
	return newTestHost(t, dir, func(c *Config) {
		c.Args = []string{"--log-level=debug", "--features=EnableCSI", "--uploader-type", "kopia"}
		c.Environment = append(c.Environment, environment...)
	})
}

func (h *testHost) nodeActions(t *testing.T) (backupitemaction.Action, restoreitemaction.Action, *lines) {
	t.Helper()
	log := &lines{}
	session := h.Session("", log.logger())
	t.Cleanup(session.Close)
	copies, checks := All(session, kinds.BackupItemActions()...), All(session, kinds.RestoreItemActions()...)
	require.Len(t, copies, 1, "%+v", h.Entries())
	require.Len(t, checks, 1, "%+v", h.Entries())
	return copies[0], checks[0], log
}

const (
	labelledConfigMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings",` +
		`"annotations":{"example.cleat.dev/needs-secret":"key"},"generation":12345678901234567},"data":{"a":"` + "\u00fc" +
		`1","n":"5"}}`
	nightly  = `{"metadata":{"namespace":"velero","name":"nightly","uid":"u-1"},"status":{"n":1.0}}`
	tomorrow = `{"metadata":{"namespace":"velero","name":"nightly","uid":"u-2"}}`
)

func TestNodePluginIsFound(t *testing.T) {
	t.Parallel()
	h := nodeHost(t, "CLEAT_COPY_DIR="+t.TempDir())
	command := filepath.Join(h.dir, "node-plugin")
	for i, entry := range h.Entries() {
		require.Empty(t, entry.Quarantined)
		require.True(t, entry.Used)
		require.Equal(t, "0.1.0", entry.PluginVersion)
		require.Equal(t, command, entry.Command)
		require.Equal(t, []string{"RestoreItemActionV2 example.cleat.dev/check",
			"AsyncBackupItemAction example.cleat.dev/copy"}[i], entry.Kind+" "+entry.Name)
	}
	require.Len(t, h.Entries(), 2)
	copies, checks, _ := h.nodeActions(t)
	selector, err := copies.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"configmaps"},
		LabelSelector: "example.cleat.dev/copy=true"}, selector)
	selector, err = checks.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"configmaps", "secrets"},
		LabelSelector: "example.cleat.dev/copy=true"}, selector)
}

func TestNodePluginCopiesAndChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := nodeHost(t, "CLEAT_COPY_DIR="+dir)
	copies, checks, log := h.nodeActions(t)

	started, err := copies.Execute(t.Context(), []byte(labelledConfigMap), []byte(nightly))
	require.NoError(t, err)
	require.NotEmpty(t, started.OperationID)
	require.Contains(t, string(started.Item), `"generation":12345678901234567`, "numbers stay what they are")
	require.Contains(t, string(started.Item), `"example.cleat.dev/copy":"`+started.OperationID+`"`)
	require.Eventually(t, func() bool { // what a process writes and what it answers are two streams
		return strings.Contains(log.String(), "[INFO]  copying: ") &&
			strings.Contains(log.String(), "plugin=example.cleat.dev/copy")
	}, longEnough, aMoment)
	again, err := copies.Execute(t.Context(), []byte(labelledConfigMap), []byte(nightly))
	require.NoError(t, err)
	require.Equal(t, started, again, "the same start has the same answer")
	other, err := copies.Execute(t.Context(), []byte(labelledConfigMap), []byte(tomorrow))
	require.NoError(t, err)
	require.NotEqual(t, started.OperationID, other.OperationID)

	const content = `{"data":{"a":"ü1","n":"5"},"binaryData":{}}`
	var progress framework.OperationProgress
	require.Eventually(t, func() bool {
		progress, err = copies.Progress(t.Context(), started.OperationID, []byte(nightly))
		return err != nil || progress.Completed
	}, longEnough, aMoment)
	require.NoError(t, err)
	require.Empty(t, progress.Err)
	require.EqualValues(t, len(content), progress.NCompleted)
	require.EqualValues(t, len(content), progress.NTotal)
	require.Equal(t, "bytes", progress.Units)
	require.False(t, progress.Started.IsZero() || progress.Updated.Before(progress.Started))
	copied, err := os.ReadFile(filepath.Join(dir, started.OperationID, "copy"))
	require.NoError(t, err)
	require.Equal(t, content, string(copied))
	require.NoError(t, copies.Cancel(t.Context(), started.OperationID, []byte(nightly)),
		"what has ended is cancelled without harm")

	checked, err := checks.Execute(t.Context(), restoreitemaction.Input{Item: started.Item, ItemFromBackup: started.Item,
		Restore: []byte(nightly)})
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings","annotations":{},"generation":12345678901234567},"data":{"a":"ü1","n":"5"}}`, string(checked.Item))
	key := []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "shop", Name: "key"}}
	require.Equal(t, key, checked.AdditionalItems)
	require.True(t, checked.WaitForAdditionalItems)
	require.Equal(t, time.Minute, checked.AdditionalItemsReadyTimeout)
	ready, err := checks.AreAdditionalItemsReady(t.Context(), key, []byte(nightly))
	require.NoError(t, err)
	require.False(t, ready)
	secret := []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"key"}}`)
	seen, err := checks.Execute(t.Context(), restoreitemaction.Input{Item: secret, ItemFromBackup: secret,
		Restore: []byte(nightly)})
	require.NoError(t, err)
	require.Equal(t, secret, seen.Item)
	ready, err = checks.AreAdditionalItemsReady(t.Context(), key, []byte(nightly))
	require.NoError(t, err)
	require.True(t, ready)
	ready, err = checks.AreAdditionalItemsReady(t.Context(), key, []byte(tomorrow))
	require.NoError(t, err)
	require.False(t, ready, "another restore waits for its own")

	changed := bytes.Replace(started.Item, []byte(`"n":"5"`), []byte(`"n":"6"`), 1)
	elsewhere := bytes.Replace(changed, []byte(started.OperationID), []byte(strings.Repeat("0", 64)), 1)
	_, err = checks.Execute(t.Context(), restoreitemaction.Input{Item: elsewhere, ItemFromBackup: elsewhere,
		Restore: []byte(nightly)})
	require.NoError(t, err, "where there is no copy there is nothing to compare")
	_, err = checks.Execute(t.Context(), restoreitemaction.Input{Item: changed, ItemFromBackup: changed,
		Restore: []byte(nightly)})
	require.EqualError(t, err, "RestoreItemAction(example.cleat.dev/check): settings is not what was copied as "+
		started.OperationID)
}
