package pluginhost

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestBadPluginIsQuarantinedWhileOthersServe(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want string // the reason; a prefix when it ends in "..."
	}{
		"exits":             {`plugin /plugins/exits died during start: exit status 3; last on stderr: cannot read /etc/plugin.yaml: no such file or directory`},
		"panics":            {`plugin /plugins/panics died during start: exit status 2; last on stderr: panic: no configuration | goroutine 1 [running]: | main.misbehaveAtStart(...`},
		"hangs":             {`start plugin /plugins/hangs: it did not offer its services within 2s; a plugin prints one handshake line to stdout and serves gRPC`},
		"prints-usage":      {`start plugin /plugins/prints-usage: wrong handshake: Unrecognized remote plugin message: usage: prints-usage [FILE]; it ended with exit status 0`},
		"prints-for-ever":   {`start plugin /plugins/prints-for-ever: wrong handshake: ...`},
		"other-protocol":    {`start plugin /plugins/other-protocol: wrong handshake: incompatible API version with plugin. Plugin version: 7, Client versions: [2]; it ended with signal: killed`},
		"listens-elsewhere": {`start plugin /plugins/listens-elsewhere: wrong handshake: address "192.0.2.1:80" in its handshake is not on this machine, a plugin listens on 127.0.0.1 or a unix socket; it ended with signal: killed`},
		"list-fails":        {`list plugins: rpc error: code = Unknown desc = the list is locked`},
		"list-dies":         {`list plugins: plugin /plugins/list-dies died during ListPlugins: exit status 9...`},
		"text":              {`start plugin /plugins/text: not an executable for linux/amd64: fork/exec /plugins/text: exec format error`},
		"script":            {`start plugin /plugins/script: fork/exec /plugins/script: no such file or directory: its interpreter /no/such/interpreter is not here`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := pluginDir(t, "zz/behave")
			switch name {
			case "hangs": // testSwapBesideOneThatHangs covers other plugins beside it, which need a longer deadline
				dir = pluginDir(t, name)
			case "text":
				writeExecutable(t, filepath.Join(dir, name), "just text\n")
			case "script":
				writeExecutable(t, filepath.Join(dir, name), "#!/no/such/interpreter\n")
			default:
				binary, err := buildMisbehave()
				require.NoError(t, err)
				require.NoError(t, os.Link(binary, filepath.Join(dir, name)))
			}
			h := newTestHost(t, dir, func(c *Config) {
				if name == "hangs" {
					c.Deadlines.Start = 2 * time.Second
				}
			})
			bad := h.Entries()[0]
			requireGolden(t, test.want, strings.ReplaceAll(bad.Quarantined, dir, "/plugins"))
			require.Equal(t, filepath.Join(dir, name), bad.Command)
			require.False(t, bad.Usable())
			if name == "hangs" {
				return
			}
			_, err := execute(t.Context(), h.behave(t), "nothing")
			require.NoError(t, err, "the other plugin works")
		})
	}
}

func TestEntriesShowUsedAndUnusedPlugins(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "lists-nonsense", "lists-nothing")
	h := newTestHost(t, dir, nil)
	nonsense, nothing := filepath.Join(dir, "lists-nonsense"), filepath.Join(dir, "lists-nothing")
	entries := h.Entries()
	for i := range entries {
		entries[i].Process = process.Process{} // without PluginInfo, it may have ended
		require.Equal(t, i+1, entries[i].Stock, "no order is configured")
		entries[i].Stock = 0
	}
	require.Equal(t, []Entry{
		{
			Kind: "BackupItemAction", Name: "example.io/fine", Version: 1, Command: nonsense,
			Used: true, Choice: "newest version that both know",
		},
		{
			Kind: "BackupItemAction", Name: "example.io/fine", Command: nonsense,
			Quarantined: "BackupItemAction example.io/fine is offered twice: by " + nonsense + ", which is used, and by " +
				nonsense,
		},
		{
			Kind: "BackupItemAction", Name: "noslash", Command: nonsense,
			Quarantined: `plugin name "noslash" must be "domain/name", like "example.io/stamp"`,
		},
		{
			Kind: "RestoreItemAction", Name: "Not A Domain/x", Command: nonsense,
			Quarantined: h.Entries()[3].Quarantined,
		},
		{Kind: "FromTheFuture", Name: "example.io/fine", Command: nonsense,
			Choice: `this server does not know the kind "FromTheFuture"`},
		{
			Kind: "DeleteItemAction", Name: "example.io/fine", Command: nonsense,
			Quarantined: "DeleteItemAction is announced but not served",
		},
		{Command: nothing, Note: "it lists no plugins"},
	}, entries)
	require.Contains(t, h.Entries()[3].Quarantined, `must start with a DNS subdomain`)
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	require.Len(t, All(session, kinds.BackupItemActions()...), 1)
	require.Empty(t, All(session, kinds.RestoreItemActions()...))
}

func TestPluginsOnTheFrameworkGetSeveralCallsAtOnce(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.BuiltIns = builtIns("example.io/usual", "example.io/alone", "example.io/many")
		c.Concurrency = map[string]int{"example.io/alone": 1, "example.io/many": 50, "example.io/missing": 3}
	})
	atOnce := Concurrency(h, kinds.BackupItemActions()...)
	require.Equal(t, 1, atOnce["example.io/alone"])
	require.Equal(t, 50, atOnce["example.io/many"])
	require.GreaterOrEqual(t, atOnce["example.io/usual"], 4)
	require.GreaterOrEqual(t, atOnce["example.io/behave"], 4)
	require.NotContains(t, atOnce, "example.io/missing")
}

func TestFirstOfTwoBinariesWithSameNameIsUsed(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "a/behave", "b/behave"), nil)
	used, lost := 0, 0
	for _, entry := range h.Entries() {
		if entry.Command == filepath.Join(h.dir, "a/behave") {
			require.Empty(t, entry.Quarantined)
			require.True(t, entry.Used)
			used++
			continue
		}
		require.Equal(t, entry.Kind+" "+entry.Name+" is offered twice: by /plugins/a/behave, which is used, and by "+
			"/plugins/b/behave",
			strings.ReplaceAll(entry.Quarantined, h.dir, "/plugins"))
		require.False(t, entry.Used)
		lost++
	}
	require.Positive(t, used)
	require.Equal(t, used, lost)
}

func TestPluginsGetServerArguments(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.Args = []string{"--log-level=debug", "--features=EnableCSI"}
	})
	require.Equal(t, []string{"start", "args --log-level=debug --features=EnableCSI"}, h.journalLines())
}

// builtIn is an action that records by which name it was called.
type builtIn struct{ log hclog.Logger }

func (b builtIn) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (b builtIn) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	b.log.Info("built in at work", "item", input.Item.GetName())
	if input.Item.GetAnnotations()["do"] == "panic" {
		panic("handler boom")
	}
	return biav1.NewExecuteOutput(input.Item), nil
}

func builtIns(names ...string) []framework.Registration {
	var regs []framework.Registration
	for _, name := range names {
		regs = append(regs, biav1.Register(name, func(_ context.Context, setup *framework.Setup) (biav1.BackupItemAction,
			error) {
			return builtIn{setup.Logger()}, nil
		}))
	}
	return regs
}

func names(actions []backupitemaction.Action) []string {
	var all []string
	for _, action := range actions {
		all = append(all, action.Name())
	}
	return all
}

func TestBuiltInsRunBeforeBinaries(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "a/lists-nonsense", "b/behave"), func(c *Config) {
		c.BuiltIns = builtIns("cleat.dev/second", "cleat.dev/first", "example.io/behave")
	})
	var log lines
	session := h.Session("", log.logger())
	defer session.Close()
	actions := All(session, kinds.BackupItemActions()...)
	require.Equal(t, []string{"cleat.dev/first", "cleat.dev/second", "example.io/behave", "example.io/fine",
		"example.io/async"}, names(actions))

	_, err := execute(t.Context(), actions[0], "nothing")
	require.NoError(t, err)
	require.Contains(t, log.String(), "built in at work")
	_, err = execute(t.Context(), actions[2], "pid")
	require.NoError(t, err, "the built-in has the name, not the binary")
	_, err = execute(t.Context(), actions[0], "panic")
	require.EqualError(t, err, "BackupItemAction(cleat.dev/first): plugin panicked: handler boom")
}

func TestIsolatedBuiltInsRunInOwnProcess(t *testing.T) {
	t.Parallel()
	self, err := buildMisbehave()
	require.NoError(t, err)
	h := newTestHost(t, "", func(c *Config) {
		c.BuiltIns = builtIns("cleat.dev/first")
		c.Isolate, c.Self, c.Args = true, self, []string{"--log-level=info"}
	})
	require.Equal(t, []string{"start", "args run-plugins --log-level=info"}, h.journalLines())
	require.True(t, h.Entries()[0].BuiltIn)
	require.NotEqual(t, os.Getpid(), processOf(t, h.behave(t)))
}

func TestNewFailsForInvalidBuiltIns(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), Config{Log: hclog.NewNullLogger(), BuiltIns: []framework.Registration{
		osv1.Register("noslash", func(context.Context, *framework.Setup) (osv1.ObjectStore, error) { return nil, nil }),
	}})
	require.ErrorContains(t, err, `built-in plugins: register ObjectStore "noslash"`)
}

func TestNewEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "hangs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New(ctx, Config{Log: hclog.NewNullLogger(), Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
}
