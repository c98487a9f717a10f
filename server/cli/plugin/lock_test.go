package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// change replaces a file by one with another byte at its end.
func change(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	programs.Write(t, path, append(data, 'x'))
}

func TestLockPrintsChanges(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"kinds": clitest.KindsPlugin, "vendor/first": clitest.FirstPlugin})
	path := filepath.Join(dir, pluginlock.FileName)

	_, err := plugin(t, dir, "lock", "--check")
	require.ErrorContains(t, err, "there is no lock "+path+"; run the command without --check to write it")
	require.NoFileExists(t, path)

	_, err = plugin(t, dir, "lock", "-o", "xml")
	require.ErrorContains(t, err, `--output "xml": want table, json or yaml`)
	require.NoFileExists(t, path)

	out, err := plugin(t, dir, "lock")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^CHANGE +FILE +WHAT\nadded +kinds +provides AsyncBackupItemAction example.io/copier, .*BackupItemActionV2 example.io/mover, `, out)
	require.Regexp(t, `(?m)^added +vendor/first +provides BackupItemAction example.cleat.dev/mark, RestoreItemAction example.cleat.dev/unmark$`, out)
	require.Contains(t, out, "\nWrote /plugins/plugins.lock with 2 files.\n")
	lock, err := pluginlock.Read(path)
	require.NoError(t, err)
	sum, err := pluginlock.SumFile(programs.Build(t, clitest.FirstPlugin))
	require.NoError(t, err)
	require.Equal(t, pluginlock.Plugin{Path: "vendor/first", SHA256: sum, Provides: []pluginlock.Provided{
		{Kind: "BackupItemAction", Version: 1, Name: "example.cleat.dev/mark"}, {Kind: "RestoreItemAction", Version: 1,
			Name: "example.cleat.dev/unmark"},
	}}, lock.Plugins[1])

	require.NoError(t, os.WriteFile(path, append([]byte("# ours\n"), must(os.ReadFile(path))...), 0o600))
	for _, flag := range []string{"--check", "--skip-broken"} {
		out, err = plugin(t, dir, "lock", flag)
		require.NoError(t, err)
		require.Equal(t, "/plugins/plugins.lock is up to date: 2 files.\n", out)
	}
	require.Contains(t, string(must(os.ReadFile(path))), "# ours\n", "a lock that is right is left alone")

	change(t, filepath.Join(dir, "kinds"))
	require.NoError(t, os.Remove(filepath.Join(dir, "vendor/first")))
	addPlugin(t, filepath.Join(dir, "named-x"), clitest.MisbehavePlugin)
	out, err = plugin(t, dir, "lock", "--check")
	require.ErrorContains(t, err, "the lock "+path+
		" does not match the directory; run the command without --check to write it anew")
	require.Regexp(t, `changed +kinds +other content\nadded +named-x +provides BackupItemAction example.io/named-x\nremoved +vendor/first +provided BackupItemAction example.cleat.dev/mark, `, out)

	out, err = plugin(t, dir, "lock", "-o", "json")
	require.NoError(t, err)
	var changes pluginstatus.LockChanges
	require.NoError(t, json.Unmarshal([]byte(out), &changes))
	require.Equal(t, pluginstatus.LockChanges{
		APIVersion: "cleat.dev/v1", Kind: "PluginLockChanges", Lock: "/plugins/plugins.lock", Files: 2, Written: true,
		Changes: []pluginstatus.LockChange{
			{Change: "changed", File: "kinds", What: "other content"}, {Change: "added", File: "named-x",
				What: "provides BackupItemAction example.io/named-x"},
			{Change: "removed", File: "vendor/first", What: "provided BackupItemAction example.cleat.dev/mark, " +
				"RestoreItemAction example.cleat.dev/unmark"},
		},
		Broken: []pluginstatus.FileProblem{}, Partial: []pluginstatus.FileProblem{},
	}, changes)

	elsewhere := filepath.Join(t.TempDir(), "mine.lock")
	_, err = plugin(t, dir, "get", "--lock-file", elsewhere)
	require.ErrorIs(t, err, os.ErrNotExist, "a lock that is named must be there")
	_, err = plugin(t, dir, "lock", "--lock-file", elsewhere)
	require.NoError(t, err)
	out, err = plugin(t, dir, "verify", "--lock-file", elsewhere)
	require.NoError(t, err)
	require.NotContains(t, out, "plugins.lock", "it is not a plugin that stands there without a lock")
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestLockRefusesBrokenFiles(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"first": clitest.FirstPlugin, "exits": clitest.MisbehavePlugin,
		"lists-nonsense": clitest.MisbehavePlugin})
	out, err := plugin(t, dir, "lock")
	require.EqualError(t, err, "cannot lock 1 file; repair or remove what is broken, or leave it out with --skip-broken")
	require.Regexp(t, `\nCannot be used:\n  exits:\n    .*exit status 3; last on stderr: cannot read /etc/plugin.yaml`,
		out)
	require.Regexp(t, `\nUsable in part:\n  lists-nonsense:\n    .* is offered twice: `, out)
	require.NoFileExists(t, filepath.Join(dir, pluginlock.FileName))

	out, err = plugin(t, dir, "lock", "--skip-broken")
	require.NoError(t, err)
	require.Contains(t, out, "\nCannot be used:\n  exits:\n")
	require.Contains(t, out, "Wrote /plugins/plugins.lock with 2 files.\n")
	lock, err := pluginlock.Read(filepath.Join(dir, pluginlock.FileName))
	require.NoError(t, err)
	require.Equal(t, "first", lock.Plugins[0].Path)
	require.Equal(t, "lists-nonsense", lock.Plugins[1].Path)

	out, err = plugin(t, dir, "lock", "--skip-broken", "--check")
	require.NoError(t, err)
	require.Contains(t, out, "\n\n/plugins/plugins.lock is up to date: 2 files.\n")
}

func TestLockCheckWithoutLock(t *testing.T) {
	t.Parallel()
	out, err := plugin(t, t.TempDir(), "lock", "--check")
	require.ErrorContains(t, err, "there is no lock ")
	require.Empty(t, out)
}

func TestLockOfFolderThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{"shared/first": clitest.FirstPlugin})
	require.NoError(t, os.Chmod(filepath.Join(dir, "shared"), 0o777)) //nolint:gosec // that is the point
	out, err := plugin(t, dir, "get", "--no-built-ins")
	require.NoError(t, err)
	require.Regexp(t, `quarantined +/plugins/shared/first\n`, out)
	_, err = plugin(t, dir, "lock")
	require.ErrorContains(t, err, "cannot lock 1 file", "whoever can write there decides what a script finds beside it")
	require.NoError(t, os.Chmod(filepath.Join(dir, "shared"), 0o755))
	_, err = plugin(t, dir, "lock")
	require.NoError(t, err)
	out, err = plugin(t, dir, "get", "--no-built-ins")
	require.NoError(t, err)
	require.Regexp(t, `example.cleat.dev/mark +BackupItemAction +1 +in use +/plugins/shared/first\n`, out)
	out, err = plugin(t, dir, "info", "example.cleat.dev/mark")
	require.NoError(t, err)
	require.Regexp(t, `Lock: +contained in /plugins/plugins.lock\n`, out)
}

func TestVerifyDoesNotStartChangedFiles(t *testing.T) {
	t.Parallel()
	dir := clitest.PluginDir(t, map[string]string{
		"kinds": clitest.KindsPlugin, "first": clitest.FirstPlugin, "named-a": clitest.MisbehavePlugin,
		"named-b": clitest.MisbehavePlugin, "named-c": clitest.MisbehavePlugin,
	})
	_, err := plugin(t, dir, "verify")
	require.ErrorContains(t, err, `there is no lock `+dir+
		`/plugins.lock (file does not exist); write it with "cleat plugin lock"`)
	_, err = plugin(t, dir, "lock")
	require.NoError(t, err)
	out, err := plugin(t, dir, "verify")
	require.NoError(t, err)
	require.Regexp(t, `^FILE +STATE +WHAT TO DO\nfirst +ok +<none>\nkinds +ok +<none>\n`, out)
	require.NotContains(t, out, "Not right")

	started := filepath.Join(t.TempDir(), "started")
	for _, name := range []string{"first", "stranger"} {
		path := filepath.Join(dir, name)
		_ = os.Remove(path)
		programs.Write(t, path, []byte("#!/bin/sh\necho "+name+" >> "+started+"\n"))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "named-a")))
	require.NoError(t, os.Remove(filepath.Join(dir, "named-b")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "named-b"),
		must(os.ReadFile(programs.Build(t, clitest.MisbehavePlugin))), 0o600))
	lock, err := pluginlock.Read(filepath.Join(dir, pluginlock.FileName))
	require.NoError(t, err)
	lock.Plugins[4].Provides[0].Name = "example.io/other" // of named-c
	require.NoError(t, lock.Write(filepath.Join(dir, pluginlock.FileName)))

	out, err = plugin(t, dir, "verify")
	require.EqualError(t, err, "5 of 6 files do not match the lock")
	require.NoFileExists(t, started)
	require.Regexp(t, `(?m)^first +changed +put the file of the lock back, or run "cleat plugin lock"
kinds +ok +<none>
named-a +missing +put the file there, or run "cleat plugin lock"
named-b +quarantined +repair, replace or remove the file; see below
named-c +quarantined +repair, replace or remove the file; see below
stranger +not in the lock +remove the file, or run "cleat plugin lock"$`, out)
	require.Regexp(t, `(?s)\nWrong:\n  first:\n    its sha256 sum is .*  named-b:\n    .*not executable.*  named-c:\n    .*example.io/other.*  stranger:\n    it is not in the lock`, out)

	out, err = plugin(t, dir, "verify", "-o", "json")
	require.EqualError(t, err, "5 of 6 files do not match the lock")
	var v pluginstatus.Verification
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, "PluginVerification", v.Kind)
	require.False(t, v.Right)
	states := map[string]pluginstatus.FileState{}
	for _, file := range v.Files {
		states[file.File] = file.State
	}
	require.Equal(t, map[string]pluginstatus.FileState{
		"first": "Changed", "kinds": "OK", "named-a": "Missing", "named-b": "Quarantined", "named-c": "Quarantined",
		"stranger": "NotLocked",
	}, states)

	require.NoError(t, os.WriteFile(filepath.Join(dir, pluginlock.FileName), []byte("plugins: []\n"), 0o600))
	_, err = plugin(t, dir, "verify")
	require.ErrorContains(t, err, "plugins.lock:1: the lock has no apiVersion")
	_, err = plugin(t, dir, "lock")
	require.ErrorContains(t, err, "repair the lock, or remove it to write a new one")
}
