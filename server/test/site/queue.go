package site

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
)

// EachState calls see with every state of the Backups of a site, in order.
func (s *Site) EachState(see func(*velerov1.Backup)) {
	s.T.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(s.T, err)
	scheme, err := app.Scheme()
	require.NoError(s.T, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(s.T, err)
	watcher, err := c.Watch(s.T.Context(), &velerov1.BackupList{}, client.InNamespace(s.Namespace))
	require.NoError(s.T, err)
	go func() {
		for event := range watcher.ResultChan() {
			if b, ok := event.Object.(*velerov1.Backup); ok {
				see(b)
			}
		}
	}()
	s.T.Cleanup(watcher.Stop)
}

// BeginBackupOf creates a backup of some namespaces.
func (s *Site) BeginBackupOf(name string, namespaces ...string) {
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: namespaces, IncludedResources: s.Resources},
	}))
}

// follower is a command with -w whose output goes to a pipe.
type follower struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *bufio.Scanner
	Shown []string // without times
}

// Follow starts a command that runs until it is interrupted.
func (s *Site) Follow(args ...string) *follower {
	s.T.Helper()
	cmd := exec.Command(Program(s.T), append(patiently(args), "-w", "--kubeconfig", s.Kubeconfig, "--namespace",
		s.Namespace)...)
	out, err := cmd.StdoutPipe()
	require.NoError(s.T, err)
	cmd.Stderr = os.Stderr
	require.NoError(s.T, cmd.Start())
	timer := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() }) // limits the wait
	s.T.Cleanup(func() { timer.Stop(); _ = cmd.Process.Kill() })
	return &follower{t: s.T, cmd: cmd, out: bufio.NewScanner(out)}
}

// Until reads lines up to one that has text in it.
func (f *follower) Until(text string) string {
	f.t.Helper()
	for f.out.Scan() {
		line := f.out.Text()
		f.Shown = append(f.Shown, line[strings.Index(line, "  ")+2:])
		if strings.Contains(line, text) {
			return line
		}
	}
	require.Fail(f.t, "the expected line was never printed", "want %q, got\n%s", text, strings.Join(f.Shown, "\n"))
	return ""
}

// Interrupt sends SIGINT and requires success.
func (f *follower) Interrupt() {
	f.t.Helper()
	require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGINT))
	_, _ = io.Copy(io.Discard, nullReader{f.out})
	require.NoError(f.t, f.cmd.Wait())
}

// nullReader has ended when the scanner has.
type nullReader struct{ *bufio.Scanner }

func (r nullReader) Read([]byte) (int, error) {
	if r.Scan() {
		return 0, nil
	}
	return 0, io.EOF
}
