package site

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

// Leads reports whether the server has logged that it leads.
func Leads(v *Server) bool { return strings.Contains(v.Log.String(), "this server leads") }

// AwaitLine waits until the server logs a line with all of these texts.
func (v *Server) AwaitLine(texts ...string) {
	v.Site.T.Helper()
	v.Site.Eventually("the server writes "+strings.Join(texts, " "), func(context.Context) (bool, error) {
		for line := range strings.Lines(v.Log.String()) {
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

// ConfigFile writes a file for --config and returns its path.
func ConfigFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: cleat.dev/v1\n"+text), 0o600))
	return path
}

// AwaitLog waits until the server has logged a text.
func (v *Server) AwaitLog(text string) {
	v.Site.T.Helper()
	v.Site.Eventually("the server writes "+text, func(context.Context) (bool, error) {
		return strings.Contains(v.Log.String(), text), nil
	})
}

// Server is a running server process.
type Server struct {
	Site *Site
	Cmd  *exec.Cmd
	Log  *LogBuffer
	Done chan error
}

// Serve starts a server that examines its queue only after changes, and no bucket for new backups. The end of the test
// kills it.
func (s *Site) Serve(args ...string) *Server {
	s.T.Helper()
	v := &Server{Site: s, Log: &LogBuffer{}, Done: make(chan error, 1)}
	base := []string{"server", "--kubeconfig", cmp.Or(s.ServerKubeconfig, s.Kubeconfig), "--namespace", s.Namespace,
		"--metrics-address", "0",
		"--profiler-address", "", "--scratch-dir", s.T.TempDir(), "--plugin-dir", filepath.Join(s.T.TempDir(), "none"),
		"--shutdown-grace-period", "1s", "--queue-sweep", "0", "--backup-sync-period", "0", "--leader-elect-lease-duration",
		"1m",
		"--log-level", "debug"}
	v.Cmd = exec.Command(Program(s.T), append(base, args...)...)
	v.Cmd.Stdout, v.Cmd.Stderr = v.Log, v.Log
	v.Cmd.Env = append(append(os.Environ(), "POD_NAME=cleat-0"), s.Environment...) // the name is not an identity
	if !s.Several {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "cleat-server"}}
		require.NoError(s.T, client.IgnoreNotFound(s.Client.Delete(s.T.Context(), lease)))
	}
	require.NoError(s.T, v.Cmd.Start())
	go func() { v.Done <- v.Cmd.Wait() }()
	s.T.Cleanup(func() {
		v.Kill()
		if s.T.Failed() {
			s.T.Logf("log of the server:\n%s", v.Log.Tail())
		}
	})
	return v
}

// Kill sends SIGKILL, unless the server has ended.
func (v *Server) Kill() {
	_ = v.Cmd.Process.Kill()
	_ = v.Wait()
}

// Wait waits until the server has ended.
func (v *Server) Wait() error {
	err := <-v.Done
	v.Done <- err
	return err
}

// Stop sends SIGTERM, as Kubernetes does.
func (v *Server) Stop() error {
	v.Site.T.Helper()
	require.NoError(v.Site.T, v.Cmd.Process.Signal(syscall.SIGTERM))
	return v.Wait()
}

// LogBuffer holds the output of a process.
type LogBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Tail returns the last lines.
func (l *LogBuffer) Tail() string {
	text := l.String()
	return text[max(0, len(text)-8<<10):]
}

// Metrics returns the metrics of a server.
func (v *Server) Metrics() string {
	v.Site.T.Helper()
	v.AwaitLog("serving metrics")
	address := regexp.MustCompile(`serving metrics: address=(\S+)`).FindStringSubmatch(v.Log.String())[1]
	request, err := http.NewRequestWithContext(v.Site.T.Context(), http.MethodGet, "http://"+address+"/metrics",
		http.NoBody)
	require.NoError(v.Site.T, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(v.Site.T, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(v.Site.T, err)
	return string(text)
}

// Measures waits until the metrics have lines that match the patterns.
func (v *Server) Measures(patterns ...string) {
	v.Site.T.Helper()
	for _, pattern := range patterns {
		line := regexp.MustCompile(`(?m)^` + strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern) + `$`)
		v.Site.Eventually("a metric "+pattern, func(context.Context) (bool, error) {
			return line.MatchString(v.Metrics()), nil
		})
	}
}
