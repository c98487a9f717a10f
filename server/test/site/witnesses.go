package site

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// witnesses are the notes of the plugin "witness" of one site.
type witnesses struct {
	t       *testing.T
	file    string
	held    string   // while this file exists, items are held
	Plugins string   // the directory of the plugin
	Args    []string // of a server with the plugin
}

// WatchItems installs the plugin, which pauses for each ConfigMap.
func (s *Site) WatchItems(pause string) *witnesses {
	s.T.Helper()
	dir := s.T.TempDir()
	w := &witnesses{t: s.T, file: filepath.Join(dir, "notes"), held: filepath.Join(dir, "hold"),
		Plugins: filepath.Join(dir, "plugins")}
	programs.Copy(s.T, "server/test/site/testdata/witness", filepath.Join(w.Plugins, "witness"))
	config := filepath.Join(dir, "cleat.yaml")
	text := fmt.Sprintf("apiVersion: cleat.dev/v1\nplugins: {concurrency: {example.io/witness: 1}, environment: "+
		"{WITNESS_FILE: %q, WITNESS_PAUSE: %s, WITNESS_HOLD: %q}}\n", w.file, pause, w.held)
	require.NoError(s.T, os.WriteFile(config, []byte(text), 0o600))
	w.Args = []string{"--config", config, "--plugin-dir", w.Plugins}
	return w
}

// Hold makes the plugin hold each item until release.
func (w *witnesses) Hold() { require.NoError(w.t, os.WriteFile(w.held, nil, 0o600)) }

func (w *witnesses) Release() { require.NoError(w.t, os.Remove(w.held)) }

// Runs returns the numbers of items by process and run, as "pid run".
func (w *witnesses) Runs() map[string]int {
	data, err := os.ReadFile(w.file)
	if !os.IsNotExist(err) {
		require.NoError(w.t, err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var pid, run, item string
		_, err := fmt.Sscan(line, &pid, &run, &item)
		require.NoError(w.t, err, "%q", line)
		count[pid+" "+run]++
	}
	return count
}

// AwaitItems waits until the plugin has processed some items of a run.
func (w *witnesses) AwaitItems(s *Site, name string, items int) {
	s.T.Helper()
	s.Eventually(name+" is in the middle", func(context.Context) (bool, error) {
		seen := 0
		for run, count := range w.Runs() {
			if strings.Fields(run)[1] == name {
				seen += count
			}
		}
		return seen >= items, nil
	})
}

// Deleted returns the number of calls of the plugin for the deletion of items of a backup.
func (w *witnesses) Deleted(backup string) int {
	sum := 0
	for run, calls := range w.Runs() {
		if _, name, _ := strings.Cut(run, " "); name == "deletion/"+backup {
			sum += calls
		}
	}
	return sum
}
