package main_test

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
)

// checkout is the root of the source tree.
const checkout = "../../.."

var fenced = regexp.MustCompile("(?s)\n```sh\n(.*?)```\n")

// runGuide runs the commands of a page of server/docs as one script, in dir, and returns what it prints. What the
// script has started is killed at its end.
func (s *site) runGuide(page, dir string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, "server", "docs", page+".md"))
	require.NoError(s.t, err)
	script := &strings.Builder{}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	require.NotEmpty(s.t, script.String())
	root, err := filepath.Abs(checkout)
	require.NoError(s.t, err)
	// not a pipe, which what is left of the script would keep open
	out, err := os.Create(filepath.Join(s.t.TempDir(), "out"))
	require.NoError(s.t, err)
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(s.t.Context(), "bash", "-euxo", "pipefail", "-c", script.String())
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(cleat(s.t))+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig,
		"HOME="+dir, "CHECKOUT="+root)
	cmd.Env = append(cmd.Env, s.environment...)
	if s.namespace != "velero" {
		cmd.Env = append(cmd.Env, "VELERO_NAMESPACE="+s.namespace)
	}
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be nothing left
	printed, errRead := os.ReadFile(out.Name())
	require.NoError(s.t, errRead)
	require.NoError(s.t, err, "%s", printed)
	return string(printed)
}

// requireKubectl skips a test of a page that shows kubectl where there is none.
func requireKubectl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl, which this page uses")
	}
}

// TestAcceptInstall_FirstHour does what somebody does who has a cluster and nothing else.
func TestAcceptInstall_FirstHour(t *testing.T) {
	t.Parallel()
	requireKubectl(t)
	programs.Depend(t, "./framework/...") // of the plugin that it builds
	s := ownCluster(t)
	dir := t.TempDir()
	// Go programs are built as everywhere else: with the caches that are there.
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		s.environment = append(s.environment, name+"="+strings.TrimSpace(string(out)))
	}
	out := s.runGuide("first-hour", dir)
	require.Contains(t, out, "prices")
	require.Contains(t, out, "apples: \"3\"")
	require.Regexp(t, `example.io/stamp +BackupItemAction`, out)
}

// TestAcceptInstall_Guides runs the commands of the other guides.
func TestAcceptInstall_Guides(t *testing.T) {
	t.Parallel()
	requireKubectl(t)
	namespace := func(s *site, name string) {
		require.NoError(s.t, s.client.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		require.NoError(s.t, s.client.Create(s.t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "settings"}}))
	}
	for page, test := range map[string]struct {
		prepare func(s *site)
		prints  []string
	}{
		"disaster-recovery": {
			prepare: func(s *site) {
				namespace(s, "blog")
				s.serve("--backup-sync-period", "1s")
				s.available()
			},
			prints: []string{"configmaps", "Namespaces:"},
		},
		"troubleshooting": {
			prepare: func(s *site) {
				s.serve(s.work().args...)
				s.available()
				namespace(s, "damaged-shop")
				s.must("backup", "create", "damaged", "--include-namespaces", "damaged-shop", "--wait")
				shop := s.beginWork("stuck", "keyed", 0, "length", "1h")
				s.awaitBackup("stuck", velerov1.BackupPhaseWaitingForPluginOperations)
				s.beginBackupOf("waits", shop)
				s.awaitBackup("waits", velerov1.BackupPhaseQueued)
			},
			prints: []string{"stuck", "cleat.dev/s3"},
		},
		"policies": {
			prepare: func(s *site) {
				s.serve()
				s.available()
				namespace(s, "policies-shop")
				s.must("backup", "create", "one", "--include-namespaces", "policies-shop", "--wait")
			},
			prints: []string{"cleat.dev/priority", "The settings are valid"},
		},
		"data-movers": {
			prepare: func(s *site) {
				s.serve(s.work().args...)
				s.available()
				s.beginWork("moved", "keyed", 0, "length", "1h")
				s.awaitBackup("moved", velerov1.BackupPhaseWaitingForPluginOperations)
			},
			prints: []string{"PartiallyFailed"},
		},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "cleat.dev/s3")
			test.prepare(s)
			out := s.runGuide(page, t.TempDir())
			for _, text := range test.prints {
				require.Contains(t, out, text)
			}
		})
	}
}

// TestAllGuidesAreRun names the tests that run the pages of server/docs.
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
