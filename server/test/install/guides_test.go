package install_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// checkout is the root of the source tree.
const checkout = "../../.."

var fenced = regexp.MustCompile("(?s)\n```sh\n(.*?)```\n")

// runGuide runs the commands of a page of server/docs as one script, in dir, and returns its output. Processes that
// the script has started are killed at its end.
func runGuide(s *site.Site, page, dir string) string {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, "server", "docs", page+".md"))
	require.NoError(s.T, err)
	script := &strings.Builder{}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	require.NotEmpty(s.T, script.String())
	root, err := filepath.Abs(checkout)
	require.NoError(s.T, err)
	// Not a pipe, which remaining processes of the script would keep open.
	out, err := os.Create(filepath.Join(s.T.TempDir(), "out"))
	require.NoError(s.T, err)
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(s.T.Context(), "bash", "-euxo", "pipefail", "-c", script.String())
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(site.Program(s.T))+":"+os.Getenv("PATH"),
		"KUBECONFIG="+s.Kubeconfig, "HOME="+dir, "CHECKOUT="+root)
	cmd.Env = append(cmd.Env, s.Environment...)
	if s.Namespace != "velero" {
		cmd.Env = append(cmd.Env, "VELERO_NAMESPACE="+s.Namespace)
	}
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be no process left
	printed, errRead := os.ReadFile(out.Name())
	require.NoError(s.T, errRead)
	require.NoError(s.T, err, "%s", printed)
	return string(printed)
}

// requireKubectl skips a test of a page that shows kubectl if it is not installed.
func requireKubectl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl, which this page uses")
	}
}

// TestAcceptInstall_FirstHour runs the guide for a user who has only a cluster.
func TestAcceptInstall_FirstHour(t *testing.T) {
	t.Parallel()
	requireKubectl(t)
	programs.Depend(t, "./framework/...") // of the plugin that it builds
	s := ownCluster(t)
	dir := t.TempDir()
	// Go programs are built as usual, with the existing caches.
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		s.Environment = append(s.Environment, name+"="+strings.TrimSpace(string(out)))
	}
	out := runGuide(s, "first-hour", dir)
	require.Contains(t, out, "prices")
	require.Contains(t, out, "apples: \"3\"")
	require.Regexp(t, `example.io/stamp +BackupItemAction`, out)
}

// TestAcceptInstall_Guides runs the commands of the other guides.
func TestAcceptInstall_Guides(t *testing.T) {
	t.Parallel()
	requireKubectl(t)
	namespace := func(s *site.Site, name string) {
		require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		require.NoError(s.T, s.Client.Create(s.T.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "settings"}}))
	}
	for page, test := range map[string]struct {
		prepare func(s *site.Site)
		prints  []string
	}{
		"disaster-recovery": {
			prepare: func(s *site.Site) {
				namespace(s, "blog")
				s.Serve("--backup-sync-period", "1s")
				s.Available()
			},
			prints: []string{"configmaps", "Namespaces:"},
		},
		"troubleshooting": {
			prepare: func(s *site.Site) {
				s.Serve(s.Work().Args...)
				s.Available()
				namespace(s, "damaged-shop")
				s.Must("backup", "create", "damaged", "--include-namespaces", "damaged-shop", "--wait")
				shop := s.BeginWork("stuck", "keyed", 0, "length", "1h")
				s.AwaitBackup("stuck", velerov1.BackupPhaseWaitingForPluginOperations)
				s.BeginBackupOf("waits", shop)
				s.AwaitBackup("waits", velerov1.BackupPhaseQueued)
			},
			prints: []string{"stuck", "cleat.dev/s3"},
		},
		"policies": {
			prepare: func(s *site.Site) {
				s.Serve()
				s.Available()
				namespace(s, "policies-shop")
				s.Must("backup", "create", "one", "--include-namespaces", "policies-shop", "--wait")
			},
			prints: []string{"cleat.dev/priority", "The settings are valid"},
		},
		"data-movers": {
			prepare: func(s *site.Site) {
				s.Serve(s.Work().Args...)
				s.Available()
				s.BeginWork("moved", "keyed", 0, "length", "1h")
				s.AwaitBackup("moved", velerov1.BackupPhaseWaitingForPluginOperations)
			},
			prints: []string{"PartiallyFailed"},
		},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/s3")
			test.prepare(s)
			out := runGuide(s, page, t.TempDir())
			for _, text := range test.prints {
				require.Contains(t, out, text)
			}
		})
	}
}

// TestAllGuidesAreRun lists the tests that run the pages of server/docs.
func TestAllGuidesAreRun(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(checkout, "server", "docs", "*.md"))
	require.NoError(t, err)
	tests, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range tests {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(text)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if fenced.Match(text) {
			require.Contains(t, all.String(), fmt.Sprintf("%q", strings.TrimSuffix(filepath.Base(path), ".md")),
				"no test runs this page")
		}
	}
}
