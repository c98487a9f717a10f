package plugin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

func TestAnswersOfProgramsAreNotTrusted(t *testing.T) {
	t.Parallel()
	files := []pluginimage.File{{Name: "a", SHA256: "1", Executable: true}, {Name: "lib", SHA256: "2"}}
	provides := []pluginlock.Provided{{Kind: "ObjectStore", Version: 1, Name: "example.io/a"}}
	for want, got := range map[string]answer{
		"":                           {Plugins: []pluginlock.Plugin{{Path: "a", SHA256: "1", Provides: provides}}},
		`file "b" was changed while`: {Plugins: []pluginlock.Plugin{{Path: "b", SHA256: "1"}}},
		`file "a" was changed while`: {Plugins: []pluginlock.Plugin{{Path: "a", SHA256: "3"}}},
		"file a did not say":         {},
		"file a is not usable: it lists": {Plugins: []pluginlock.Plugin{
			{Path: "a", SHA256: "1", Provides: []pluginlock.Provided{{Kind: "ObjectStore", Version: 1, Name: "\x1b[2J"}}},
		}},
		"file a is not usable: \ufffd[2J ":  {Broken: []pluginstatus.FileProblem{{File: "a", Reason: "\x1b[2J "}}},
		"file \ufffd[2J is not usable: why": {Broken: []pluginstatus.FileProblem{{File: "\x1b[2J", Reason: "why"}}},
	} {
		plugins, err := got.check(files)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, got.Plugins, plugins)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestFilesOfAnImageAreInTheLock(t *testing.T) {
	t.Parallel()
	lock := &pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: "a", SHA256: "1"}}}
	require.NoError(t, checkLocked(lock, []pluginimage.File{{Name: "a", SHA256: "1", Executable: true}}))
	for want, file := range map[string]pluginimage.File{
		"file a must not run: its sha256 sum is 2":      {Name: "a", SHA256: "2", Executable: true},
		"file b must not run: it is not in the lock":    {Name: "b", SHA256: "1", Executable: true},
		"file json.py is no plugin, so the lock cannot": {Name: "json.py", SHA256: "1"},
	} {
		require.ErrorContains(t, checkLocked(lock, []pluginimage.File{file}), want)
	}
}
