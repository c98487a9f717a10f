package main_test

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
	plugins string   // the directory of the plugin
	args    []string // of a server with the plugin
}

// watchItems installs the plugin, which takes pause for each ConfigMap.
func (s *site) watchItems(pause string) *witnesses {
	s.t.Helper()
	dir := s.t.TempDir()
	w := &witnesses{t: s.t, file: filepath.Join(dir, "notes"), held: filepath.Join(dir, "hold"),
		plugins: filepath.Join(dir, "plugins")}
	programs.Copy(s.t, "server/cmd/cleat/testdata/witness", filepath.Join(w.plugins, "witness"))
	config := filepath.Join(dir, "cleat.yaml")
	text := fmt.Sprintf("apiVersion: cleat.dev/v1\nplugins: {concurrency: {example.io/witness: 1}, environment: "+
		"{WITNESS_FILE: %q, WITNESS_PAUSE: %s, WITNESS_HOLD: %q}}\n", w.file, pause, w.held)
	require.NoError(s.t, os.WriteFile(config, []byte(text), 0o600))
	w.args = []string{"--config", config, "--plugin-dir", w.plugins}
	return w
}

// hold makes the plugin keep each item until release.
func (w *witnesses) hold() { require.NoError(w.t, os.WriteFile(w.held, nil, 0o600)) }

func (w *witnesses) release() { require.NoError(w.t, os.Remove(w.held)) }

// runs returns the numbers of items by process and run, as "pid run".
func (w *witnesses) runs() map[string]int {
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

// awaitItems waits until the plugin has seen some items of a run.
func (w *witnesses) awaitItems(s *site, name string, items int) {
	s.t.Helper()
	s.eventually(name+" is in the middle", func(context.Context) (bool, error) {
		seen := 0
		for run, count := range w.runs() {
			if strings.Fields(run)[1] == name {
				seen += count
			}
		}
		return seen >= items, nil
	})
}

// deleted returns how often the plugin was called for the deletion of items of a backup.
func (w *witnesses) deleted(backup string) int {
	sum := 0
	for run, calls := range w.runs() {
		if _, name, _ := strings.Cut(run, " "); name == "deletion/"+backup {
			sum += calls
		}
	}
	return sum
}
