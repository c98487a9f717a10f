package main_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func leads(v *server) bool { return strings.Contains(v.log.String(), "this server leads") }

// awaitLine waits until the server writes a line with all of these texts.
func (v *server) awaitLine(texts ...string) {
	v.site.t.Helper()
	v.site.eventually("the server writes "+strings.Join(texts, " "), func(context.Context) (bool, error) {
		for line := range strings.Lines(v.log.String()) {
			found := true
			for _, text := range texts {
				found = found && strings.Contains(line, text)
			}
			if found {
				return true, nil
			}
		}
		return false, nil
	})
}

// configFile writes a file for --config and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: cleat.dev/v1\n"+text), 0o600))
	return path
}

// awaitLog waits until the server has written something.
func (v *server) awaitLog(text string) {
	v.site.t.Helper()
	v.site.eventually("the server writes "+text, func(context.Context) (bool, error) {
		return strings.Contains(v.log.String(), text), nil
	})
}

// server is a running server process.
type server struct {
	site *site
	cmd  *exec.Cmd
	log  *logBuffer
	done chan error
}

// serve starts a server that examines its queue only after changes, and no bucket for new backups. The end of the test
// kills it.
func (s *site) serve(args ...string) *server {
	s.t.Helper()
	v := &server{site: s, log: &logBuffer{}, done: make(chan error, 1)}
	base := []string{"server", "--kubeconfig", cmp.Or(s.serverKubeconfig, s.kubeconfig), "--namespace", s.namespace,
		"--metrics-address", "0",
		"--profiler-address", "", "--scratch-dir", s.t.TempDir(), "--plugin-dir", filepath.Join(s.t.TempDir(), "none"),
		"--shutdown-grace-period", "1s", "--queue-sweep", "0", "--backup-sync-period", "0", "--leader-elect-lease-duration",
		"1m",
		"--log-level", "debug"}
	v.cmd = exec.Command(cleat(s.t), append(base, args...)...)
	v.cmd.Stdout, v.cmd.Stderr = v.log, v.log
	v.cmd.Env = append(append(os.Environ(), "POD_NAME=cleat-0"), s.environment...) // the name is not an identity
	if !s.several {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cleat-server"}}
		require.NoError(s.t, client.IgnoreNotFound(s.client.Delete(s.t.Context(), lease)))
	}
	require.NoError(s.t, v.cmd.Start())
	go func() { v.done <- v.cmd.Wait() }()
	s.t.Cleanup(func() {
		v.kill()
		if s.t.Failed() {
			s.t.Logf("log of the server:\n%s", v.log.tail())
		}
	})
	return v
}

// kill sends SIGKILL, unless the server has ended.
func (v *server) kill() {
	_ = v.cmd.Process.Kill()
	_ = v.wait()
}

func (v *server) wait() error {
	err := <-v.done
	v.done <- err
	return err
}

// stop sends SIGTERM, as Kubernetes does.
func (v *server) stop() error {
	v.site.t.Helper()
	require.NoError(v.site.t, v.cmd.Process.Signal(syscall.SIGTERM))
	return v.wait()
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) tail() string {
	text := l.String()
	return text[max(0, len(text)-8<<10):]
}

// metrics returns the metrics of a server.
func (v *server) metrics() string {
	v.site.t.Helper()
	v.awaitLog("serving metrics")
	address := regexp.MustCompile(`serving metrics: address=(\S+)`).FindStringSubmatch(v.log.String())[1]
	request, err := http.NewRequestWithContext(v.site.t.Context(), http.MethodGet, "http://"+address+"/metrics",
		http.NoBody)
	require.NoError(v.site.t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(v.site.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(v.site.t, err)
	return string(text)
}

// measures waits until the metrics have lines that match the patterns.
func (v *server) measures(patterns ...string) {
	v.site.t.Helper()
	for _, pattern := range patterns {
		line := regexp.MustCompile(`(?m)^` + strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern) + `$`)
		v.site.eventually("a metric "+pattern, func(context.Context) (bool, error) {
			return line.MatchString(v.metrics()),
				nil
		})
	}
}
