package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// execute runs one command that needs no cluster.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := New(Streams{Out: &out, Err: &out}, "v1.2.3", args).ExecuteContext(t.Context())
	return out.String(), err
}

func TestHelpListsTheCommands(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--help")
	require.NoError(t, err)
	for _, command := range []string{"backup ", "restore ", "schedule ", "queue ", "install ", "server ", "version "} {
		require.Contains(t, out, "  "+command)
	}
	require.NotContains(t, out, "run-plugins", "it is for the server")
	out, err = execute(t, "backup")
	require.NoError(t, err)
	for _, command := range []string{"create", "get", "describe", "logs", "delete"} {
		require.Contains(t, out, "  "+command+" ")
	}
}

func TestVersionOfTheClient(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "version", "--client-only")
	require.NoError(t, err)
	require.Equal(t, "Client: v1.2.3\n", out)
}

func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown command": {[]string{"backups"}, `unknown command "backups"`},
		"unknown below":   {[]string{"plugin", "show"}, `unknown command "show" for "cleat plugin"; there are get, info, init, lock, order, test, verify`},
		"no name":         {[]string{"plugin", "info"}, "accepts 1 arg(s), received 0; usage: cleat plugin info NAME|FILE [flags]"},
		"unknown flag":    {[]string{"backup", "create", "--no-such"}, `unknown flag: --no-such; "cleat backup create --help" lists the flags`},
		"bad switch":      {[]string{"backup", "create", "x", "--snapshot-volumes=maybe"}, `"maybe": want true or false`},
		"two names":       {[]string{"backup", "create", "x", "y"}, "accepts at most 1 arg"},
		"no times":        {[]string{"schedule", "create", "x"}, `say when to back up: --schedule "0 3 * * *"`},
		"no source":       {[]string{"restore", "create", "x"}, "--from-backup or --from-schedule"},
		"bad mapping":     {[]string{"restore", "create", "--from-backup", "x", "--namespace-mappings", "a"}, "want KEY:VALUE"},
		"whole install":   {[]string{"install"}, "cleat install --crds-only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := execute(t, tt.args...)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWhatAClusterLacksForARequestIsTold(t *testing.T) {
	t.Parallel()
	namespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "velero")
	require.EqualError(t, whatIsMissing(namespace), `namespaces "velero" not found; name the namespace of the server with --namespace`)
	kind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "velero.io", Kind: "ServerStatusRequest"}, SearchedVersions: []string{"v1"}}
	require.EqualError(t, whatIsMissing(kind), `no matches for kind "ServerStatusRequest" in version "velero.io/v1"; "cleat install --crds-only" installs the custom resources`)
	require.ErrorIs(t, whatIsMissing(os.ErrClosed), os.ErrClosed)
}

func TestASwitchMayBeLeftOpen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*bool{"": nil, "--s": new(true), "--s=true": new(true), "--s=false": new(false)} {
		var got *bool
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		addOptionalBool(flags, &got, "s", "")
		require.NoError(t, flags.Parse(strings.Fields(text)))
		require.Equal(t, want, got, text)
	}
}

func TestSelectorsOfAList(t *testing.T) {
	t.Parallel()
	s := selectors{one: "a=b,c notin (d)", alternatives: "x=y or z"}
	one, alternatives, err := s.parse()
	require.NoError(t, err)
	require.Equal(t, "a=b,c notin (d)", metav1.FormatLabelSelector(one))
	require.Len(t, alternatives, 2)
	_, _, err = (&selectors{one: "a=("}).parse()
	require.ErrorContains(t, err, "--selector")
	_, _, err = (&selectors{alternatives: "a=b or ("}).parse()
	require.ErrorContains(t, err, "--or-selector")
}

func TestOrderedResources(t *testing.T) {
	t.Parallel()
	ordered, err := parseOrdered("pods=ns/a,ns/b; persistentvolumes = c")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"pods": "ns/a,ns/b", "persistentvolumes": "c"}, ordered)
	for _, text := range []string{"pods", "=a", "pods=", ";"} {
		_, err := parseOrdered(text)
		require.ErrorContains(t, err, "want RESOURCE=NAMESPACE/NAME", text)
	}
}

func TestTheNamespaceOfTheServer(t *testing.T) { //nolint:paralleltest // it sets the environment
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("VELERO_NAMESPACE", "")
	namespace := func(flag string) string {
		t.Helper()
		f := clusterFlags{namespace: flag}
		got, err := f.namespaceOrDefault()
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "velero", namespace(""))
	require.NoError(t, os.MkdirAll(home+"/.config/velero", 0o700))
	require.NoError(t, os.WriteFile(home+"/.config/velero/config.json", []byte(`{"namespace":"from-file","features":"x"}`), 0o600))
	require.Equal(t, "from-file", namespace(""))
	t.Setenv("VELERO_NAMESPACE", "from-env")
	require.Equal(t, "from-env", namespace(""))
	require.Equal(t, "from-flag", namespace("from-flag"))

	t.Setenv("VELERO_NAMESPACE", "")
	require.NoError(t, os.WriteFile(home+"/.config/velero/config.json", []byte(`[]`), 0o600))
	_, err := (&clusterFlags{}).namespaceOrDefault()
	require.ErrorContains(t, err, `config.json, want {"namespace": "..."}`)
}

func TestPluginsGetTheServersFlags(t *testing.T) {
	t.Parallel()
	app := &App{Args: []string{"-n", "x", "server", "--features=EnableCSI", "--log-level", "debug"}}
	require.Equal(t, []string{"-n", "x", "--features=EnableCSI", "--log-level", "debug"}, pluginArgs(app))

	var f clusterFlags
	require.NoError(t, f.parse([]string{"--features=EnableCSI", "--kubeconfig", "/k", "--concurrent-backups", "3", "-n", "x"}))
	require.Equal(t, clusterFlags{kubeconfig: "/k", namespace: "x"}, f)
}

func TestLinesSayEachPhaseOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out, "backup b")
	for _, s := range []state{{phase: "New"}, {phase: "InProgress", done: 1, total: 9}, {phase: "InProgress", done: 9, total: 9}, {phase: "Completed", ended: true}} {
		d.state(s)
	}
	d.note("the API server is away")
	d.end()
	require.Equal(t, "backup b: New\nbackup b: InProgress\nbackup b: Completed\nbackup b: the API server is away\n", out.String())
}

func TestABarIsDrawnAndCleared(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bar{w: &out, what: "backup b"}
	b.state(state{phase: "InProgress"})
	b.state(state{phase: "InProgress", done: 5, total: 10})
	b.state(state{phase: "InProgress", done: 11, total: 10})
	b.note("still here")
	b.end()
	require.Contains(t, out.String(), "backup b: InProgress")
	require.True(t, strings.HasSuffix(out.String(), "backup b: still here\n"))
}

func TestNamesLeaveRoomForAUUID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", cutName("short"))
	require.Len(t, cutName(strings.Repeat("x", 253))+"-"+"00000000-0000-0000-0000-000000000000", 253)
}

func TestAWatchBringsItsOwnKind(t *testing.T) {
	t.Parallel()
	b := &velerov1.Backup{}
	require.NoError(t, assign(b, &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	require.Equal(t, "n", b.Name)
	require.ErrorContains(t, assign(b, &velerov1.Restore{}), "a watch of *v1.Backup brought a *v1.Restore")
}
