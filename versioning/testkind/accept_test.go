package testkind_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/hosting"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/testkind/kinds"
	"github.com/cleat-dev/cleat/versioning/testkind/versioning/itemweigher"
)

// pluginsBuiltBefore names the directory of plugins that announce version 1, for tests on sources without that version.
const pluginsBuiltBefore = "CLEAT_TEST_PLUGINS_BUILT_BEFORE"

// TestAcceptPlugins_TestKind runs plugins that announce every mix of the three versions of a kind in the real host,
// which has no line about the kind. Then it deletes version 1 and runs the same plugins again.
func TestAcceptPlugins_TestKind(t *testing.T) {
	t.Parallel()
	dir := buildPlugins(t)
	h := newHost(t, dir)
	for _, test := range pluginsAndVersions() {
		t.Run("announced "+test.announced, func(t *testing.T) {
			t.Parallel()
			h.requireServes(t, test.announced, test.used)
		})
	}
	t.Run("of a deprecated version the operator reads once", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, dir)
		for range 3 {
			h.requireServes(t, "v1", 1)
		}
		require.Equal(t, 1, h.log.count("[WARN]", "ItemWeigher version 1 goes away, use version 3"), h.log.String())
		require.Equal(t, 1, h.log.count("[WARN]", "plugin=example.io/v1 "), "only the one whose version 1 is used")
	})
	t.Run("a reply that breaks a rule is refused at every version", testRules(dir))
	t.Run("version 1 goes by deletion", func(t *testing.T) {
		t.Parallel()
		runWithoutVersion1(t, dir)
	})
}

// TestWithoutVersion1 is run by TestAcceptPlugins_TestKind after it has deleted version 1.
func TestWithoutVersion1(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(pluginsBuiltBefore)
	if dir == "" {
		t.Skip("version 1 is there")
	}
	h := newHost(t, dir)
	t.Cleanup(func() { // when all have been used
		require.Zero(t, h.log.count("goes away", "use version 3"), "a removed version is not deprecated any more")
	})
	for _, test := range pluginsAndVersions() {
		t.Run("announced "+test.announced, func(t *testing.T) {
			t.Parallel()
			h.requireServes(t, test.announced, test.usedWithoutVersion1)
		})
	}
	t.Run("rules", testRules(dir))
}

// pluginsAndVersions returns plugins, each with the versions that it announces and the one that is used; 0 is none.
func pluginsAndVersions() []pluginAndVersions {
	return []pluginAndVersions{
		{"v1", 1, 0},
		{"v2", 2, 2},
		{"v3", 3, 3},
		{"v1-v2", 2, 2},
		{"v1-v3", 3, 3},
		{"v2-v3", 3, 3},
		{"v1-v2-v3", 3, 3},
	}
}

type pluginAndVersions struct {
	announced                 string
	used, usedWithoutVersion1 int
}

// buildPlugins returns a directory with a plugin for each line of pluginsAndVersions.
func buildPlugins(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, pluginsAndVersions()[0].announced)
	programs.Copy(t, "versioning/testkind/testdata/plugin", binary)
	for _, test := range pluginsAndVersions()[1:] {
		require.NoError(t, os.Link(binary, filepath.Join(dir, test.announced)))
	}
	return dir
}

// host is a real host with the test's kind.
type host struct {
	*hosting.Host
	log *log
}

func newHost(t *testing.T, dir string) host {
	t.Helper()
	h := host{log: &log{}}
	var err error
	h.Host, err = hosting.New(t.Context(), hosting.Config{
		Dir: dir, Log: h.log.logger(), Kinds: kinds.ItemWeigher().WireKinds(),
	})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// weigher returns the hub over a plugin, or false if the host does not use it. Its lines go to the log until end is
// called.
func (h host) weigher(t *testing.T, announced string) (_ itemweigher.Weigher, _ *log, end func(), ok bool) {
	t.Helper()
	session := &log{}
	s := h.Session("", session.logger())
	t.Cleanup(s.Close)
	for _, weigher := range hosting.All(s, kinds.ItemWeigher()) {
		if weigher.Name() == "example.io/"+announced {
			return weigher, session, s.Close, true
		}
	}
	return nil, session, s.Close, false
}

// requireServes weighs two items with a plugin, and requires that it is called once, at the version used.
func (h host) requireServes(t *testing.T, announced string, used int) {
	t.Helper()
	weigher, log, end, ok := h.weigher(t, announced)
	defer end() // the next session has the lines of the process to itself
	require.Equal(t, used != 0, ok)
	for _, entry := range h.Entries() {
		if entry.Name != "example.io/"+announced {
			continue
		}
		require.Equal(t, used != 0 && entry.Version == used, entry.Used, "%+v", entry)
		if used == 0 {
			require.Equal(t, "this server knows versions 2 and 3 of ItemWeigher, no longer 1", entry.Choice)
		}
	}
	if !ok {
		return
	}
	weights, err := weigher.Weigh(t.Context(), [][]byte{item("web", 1500), item("db", 2048)},
		[]byte(`{"metadata":{"name":"exact"}}`))
	require.NoError(t, err)
	want := []itemweigher.Weight{{Bytes: 1500, Exact: true}, {Bytes: 2048, Exact: true}}
	calls, itemsPerCall := 2, 1
	switch used {
	case 1:
		want = []itemweigher.Weight{{Bytes: 2048}, {Bytes: 2048}}
	case 3:
		calls, itemsPerCall = 1, 2
	}
	require.Equal(t, want, weights)
	line := fmt.Sprintf("version=%d", used)
	require.Eventually(t, func() bool {
		return log.count("weighed", line, fmt.Sprintf("items=%d", itemsPerCall)) >= calls
	},
		waitTime, pollTime, "the plugin's lines in %q", log)
	require.Equal(t, calls, log.count("weighed", ""), log.String())
}

func testRules(dir string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		h := newHost(t, dir)
		for _, test := range []struct {
			announced, want string
			item            []byte
		}{
			{"v1", "items[0] weighs -3072 bytes, want no negative number", item("web", -4096)},
			{"v1", "items[0] weighs 9007199254740991 KiB, want at most 1099511627776", item("web", math.MaxInt64-1023)},
			{"v2", "items[0] weighs -1 bytes, want no negative number", item("web", -1)},
			{"v2", "items[0] weighs 9223372036854775807 bytes, want at most 1125899906842624", item("web", math.MaxInt64)},
			{"v3", "items[0] weighs -1 bytes, want no negative number", item("web", -1)},
			{"v3", "there are 0 weights, want one for each of 1 items", item("lost", 1)},
		} {
			weigher, _, _, ok := h.weigher(t, test.announced)
			if !ok && test.announced == "v1" {
				continue
			}
			_, err := weigher.Weigh(t.Context(), [][]byte{test.item}, []byte(`{}`))
			require.EqualError(t, err, "ItemWeigher(example.io/"+test.announced+"): invalid reply: "+test.want)
		}
	}
}

func item(name string, bytes int64) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"annotations":{"bytes":"%d"}}}`,
		name, bytes)
}

// runWithoutVersion1 builds and runs the tests on sources without version 1: its folders, its file and its line in the
// list are removed, and nothing else is changed.
func runWithoutVersion1(t *testing.T, plugins string) {
	t.Helper()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, pattern := range versionFiles(1) {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			overlay.Replace[absolute(t, file)] = "" // deleted
		}
	}
	dir := t.TempDir()
	list, removed := "", 0
	for line := range strings.Lines(read(t, listFile)) {
		if strings.Contains(line, lineOfVersion(1)) {
			removed++
			continue
		}
		list += line
	}
	require.Equal(t, 1, removed)
	overlay.Replace[absolute(t, listFile)] = filepath.Join(dir, "kinds.go")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kinds.go"), []byte(list), 0o600))
	encoded, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), encoded, 0o600))

	programs.Depend(t, "./...")
	without := "-overlay=" + filepath.Join(dir, "overlay.json")
	output, err := exec.CommandContext(t.Context(), "go", "build", without, "./...").CombinedOutput()
	require.NoError(t, err, string(output))
	test := exec.CommandContext(t.Context(), "go", "test", without, "-vet=off", "-v", "-run", "^TestWithoutVersion1$", ".")
	test.Env = append(os.Environ(), pluginsBuiltBefore+"="+plugins)
	output, err = test.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "--- PASS: TestWithoutVersion1/announced_v1-v2-v3")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// log can be read while it is written.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// count returns how many lines contain all the texts.
func (l *log) count(texts ...string) int {
	n := 0
lines:
	for line := range strings.Lines(l.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
}

func (l *log) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Trace, DisableTime: true})
}
