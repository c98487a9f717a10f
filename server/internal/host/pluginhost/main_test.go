package pluginhost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// How long tests wait for a condition, and how often they check it.
const (
	longEnough = 5 * time.Minute
	aMoment    = 5 * time.Millisecond
)

const (
	// secretVariable is set in the environment of the server. It reaches plugins unless the rule is Strict.
	secretVariable = "CLOUD_TEST_PASSWORD"
	// foreignHandshake is set as in a server that is itself a plugin. It must not reach plugins.
	foreignHandshake = "PLUGIN_MULTIPLEX_GRPC"
)

// testBinaries is the folder in which the misbehaving plugin is built, once for all tests.
var testBinaries string

func TestMain(m *testing.M) {
	if dir := os.Getenv("CLEAT_TEST_SERVE"); dir != "" {
		serveUntilKilled(dir)
	}
	if dir := os.Getenv("CLEAT_TEST_REASON"); dir != "" {
		printReason(dir, os.Getenv("CLEAT_TEST_LOCKED") == "true")
	}
	dir, err := os.MkdirTemp("", "pluginhost")
	if err != nil {
		panic(err)
	}
	testBinaries = dir
	_ = os.Setenv(secretVariable, "hunter2")
	_ = os.Setenv(foreignHandshake, "false")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// serveUntilKilled runs a host with the plugins in dir. It prints the process id of the first one.
func serveUntilKilled(dir string) {
	host, err := New(context.Background(), Config{Dir: dir, Log: hclog.NewNullLogger()})
	if err != nil {
		panic(err)
	}
	supervised := host.history.now().catalog.rows[0].source.supervisor
	if err := supervised.Ready(context.Background(), ""); err != nil {
		panic(err)
	}
	fmt.Println(supervised.State().PID)
	select {}
}

// buildMisbehave returns a copy of the misbehaving plugin that tests may link to.
var buildMisbehave = sync.OnceValues(func() (string, error) {
	path := filepath.Join(testBinaries, "misbehave")
	built, err := programs.Link("server/internal/host/pluginhost/testdata/misbehave")
	if err != nil {
		return "", err
	}
	return path, programs.CopyFile(built, path)
})

// pluginDir returns a plugin directory with the misbehaving plugin under each of the names.
func pluginDir(t *testing.T, names ...string) string {
	t.Helper()
	binary, err := buildMisbehave()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(testBinaries, "plugins")
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.Link(binary, filepath.Join(dir, name)))
	}
	return dir
}

// writeExecutable writes a file that can be started at once. It prevents that a process that is forked meanwhile
// inherits the descriptor open for writing.
func writeExecutable(t *testing.T, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
}

// lines is a log that can be read and written concurrently.
type lines struct{ programs.Output }

func (l *lines) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Trace, DisableTime: true})
}

// testHost is a host with a plugin directory, its journal and its log.
type testHost struct {
	*Host
	dir     string
	log     *lines
	journal string
}

func newTestHost(t *testing.T, dir string, change func(*Config)) *testHost {
	t.Helper()
	h := &testHost{dir: dir, log: &lines{}, journal: filepath.Join(t.TempDir(), "journal")}
	cfg := Config{
		Dir:         dir,
		Log:         h.log.logger(),
		Environment: []string{"CLEAT_TEST_JOURNAL=" + h.journal},
		Restart:     process.Restart{Backoff: time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	host, err := New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(host.Close)
	h.Host = host
	return h
}

// supervisor returns the supervisor of the first binary.
func (h *testHost) supervisor() *process.Supervisor {
	return h.history.now().catalog.rows[0].source.supervisor
}

// ObjectStore opens the object store of a location.
func (h *testHost) ObjectStore(
	ctx context.Context, location, provider string, config map[string]string,
) (objectstore.Store, error) {
	return Open(ctx, h.Host, kinds.ObjectStore(), location, provider, config)
}

// journalLines returns the lines that the plugin has written to its journal.
func (h *testHost) journalLines() []string {
	data, err := os.ReadFile(h.journal)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (h *testHost) requireInJournal(t *testing.T, line string) {
	t.Helper()
	require.Eventually(t, func() bool { return h.journalCount(line) > 0 }, longEnough, aMoment, "%q in the journal", line)
}

// journalCount returns the number of equal lines in the journal.
func (h *testHost) journalCount(line string) int {
	count := 0
	for _, l := range h.journalLines() {
		if l == line {
			count++
		}
	}
	return count
}

// golden returns the text of an error without the paths of the test.
func (h *testHost) golden(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), h.dir, "/plugins")
}

// refused returns the reason for a quarantine without the paths of the test.
func (h *testHost) refused() string {
	for _, entry := range h.Entries() {
		if entry.Quarantined != "" {
			return withoutSums(h.golden(fmt.Errorf("%s", entry.Quarantined)))
		}
	}
	return ""
}

func withoutSums(text string) string {
	return regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(text, "SUM")
}

// behave returns the action of the misbehaving plugin, in a session that lasts for the test.
func (h *testHost) behave(t *testing.T) backupitemaction.Action {
	t.Helper()
	return h.action(t, "example.io/behave")
}

// action returns the action with this name, in a session that lasts for the test.
func (h *testHost) action(t *testing.T, name string) backupitemaction.Action {
	t.Helper()
	session := h.Session("", hclog.NewNullLogger())
	t.Cleanup(session.Close)
	return actionNamed(t, session, name)
}

func actionNamed(t *testing.T, in Plugins, name string) backupitemaction.Action {
	t.Helper()
	for _, action := range All(in, kinds.BackupItemActions()...) {
		if action.Name() == name {
			return action
		}
	}
	require.FailNow(t, "no action", name)
	return nil
}

var backupJSON = []byte(`{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"b","namespace":"velero"}}`)

func itemDoing(what string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"do":%q},"name":"settings","namespace":"shop"}}`, what)
}

// execute calls the action with an instruction and returns the annotations of the item in its reply.
func execute(ctx context.Context, action backupitemaction.Action, what string) (map[string]string, error) {
	result, err := action.Execute(ctx, itemDoing(what), backupJSON)
	if err != nil {
		return nil, err
	}
	var item struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(result.Item, &item); err != nil {
		return nil, err
	}
	return item.Metadata.Annotations, nil
}
