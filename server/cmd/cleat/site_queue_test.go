package main_test

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

// eachState calls see with every state of the Backups of a site, in order.
func (s *site) eachState(see func(*velerov1.Backup)) {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(s.t, err)
	scheme, err := app.Scheme()
	require.NoError(s.t, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(s.t, err)
	watcher, err := c.Watch(s.t.Context(), &velerov1.BackupList{}, client.InNamespace(s.namespace))
	require.NoError(s.t, err)
	go func() {
		for event := range watcher.ResultChan() {
			if b, ok := event.Object.(*velerov1.Backup); ok {
				see(b)
			}
		}
	}()
	s.t.Cleanup(watcher.Stop)
}

// beginBackupOf creates a backup of some namespaces.
func (s *site) beginBackupOf(name string, namespaces ...string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: namespaces, IncludedResources: s.resources},
	}))
}

// follower is a command with -w in a pipe.
type follower struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *bufio.Scanner
	shown []string // without times
}

func (s *site) follow(args ...string) *follower {
	s.t.Helper()
	cmd := exec.Command(cleat(s.t), append(patiently(args), "-w", "--kubeconfig", s.kubeconfig, "--namespace",
		s.namespace)...)
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	cmd.Stderr = os.Stderr
	require.NoError(s.t, cmd.Start())
	timer := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() }) // limits the waiting
	s.t.Cleanup(func() { timer.Stop(); _ = cmd.Process.Kill() })
	return &follower{t: s.t, cmd: cmd, out: bufio.NewScanner(out)}
}

// until reads lines up to one that has text in it.
func (f *follower) until(text string) string {
	f.t.Helper()
	for f.out.Scan() {
		line := f.out.Text()
		f.shown = append(f.shown, line[strings.Index(line, "  ")+2:])
		if strings.Contains(line, text) {
			return line
		}
	}
	require.Fail(f.t, "the expected line was never printed", "want %q, got\n%s", text, strings.Join(f.shown, "\n"))
	return ""
}

// interrupt sends SIGINT and requires success.
func (f *follower) interrupt() {
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
