package policy

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// testBinaries is the directory in which the plugin is built, once for all tests.
var testBinaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "policies")
	if err != nil {
		panic(err)
	}
	testBinaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var buildPolicy = sync.OnceValues(func() (string, error) {
	path := filepath.Join(testBinaries, "policy")
	built, err := programs.Link("server/internal/control/policy/testdata/policy")
	if err != nil {
		return "", err
	}
	return path, programs.CopyFile(built, path)
})

// lines is a log that can be read while it is written.
type lines struct{ programs.Output }

// with returns the lines that contain text.
func (l *lines) with(text string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// site is a host over a plugin directory, with the built-in policies and the policies of a config file.
type site struct {
	*Policies
	host    *pluginhost.Host
	dir     string
	schema  string // a file with the schema that the plugin announces at its start
	log     *lines
	metrics *prometheus.Registry

	installed int // how often the binary was replaced
}

// writeProgram writes a program that can be started at once: no process that is forked meanwhile inherits it open for
// writing.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // it is a program
}

// newSite returns a site whose plugin directory has the binary "policy" and, if the config names it, a binary that
// does not start.
func newSite(t *testing.T, file string) *site {
	t.Helper()
	binary, err := buildPolicy()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(testBinaries, "plugins")
	require.NoError(t, err)
	s := &site{dir: dir, schema: filepath.Join(t.TempDir(), "schema"), log: &lines{}, metrics: prometheus.NewRegistry()}
	require.NoError(t, os.Link(binary, s.binary()))
	if strings.Contains(file, "example.io/broken") { // several starts are attempted
		writeProgram(t, filepath.Join(dir, "broken"), []byte("#!/bin/sh\nexit 1\n"))
	}
	log := hclog.New(&hclog.LoggerOptions{Output: s.log, DisableTime: true})
	s.host, err = pluginhost.New(t.Context(), pluginhost.Config{
		Dir: dir, BuiltIns: plugins.Policies(), Log: log.Named("plugins"), Rescan: -1,
		Environment: []string{"CLEAT_TEST_SCHEMA=" + s.schema},
		Restart:     process.Restart{Backoff: time.Millisecond, Threshold: 100},
	})
	require.NoError(t, err)
	t.Cleanup(s.host.Close)
	read, err := config.Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\n"+file))
	require.NoError(t, err)
	s.Policies, err = New(read, Deps{Host: s.host, Log: log.Named("policies"), Metrics: s.metrics, Now: noon})
	require.NoError(t, err)
	return s
}

func (s *site) binary() string { return filepath.Join(s.dir, "policy") }

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// count returns the value of the metric with labels.
func (s *site) count(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if strings.Join(values, " ") == strings.Join(labels, " ") {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return 0
}
