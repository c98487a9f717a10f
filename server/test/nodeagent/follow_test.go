package nodeagent_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// lines are the lines that a program has printed so far.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	done chan struct{} // closed when the program has ended
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// follow prints the log of a backup while it runs.
func (m *machine) follow(backup string) *lines {
	m.t.Helper()
	l := &lines{done: make(chan struct{})}
	cmd := exec.CommandContext(m.t.Context(), programs.Build(m.t, "server/cmd/cleat"), "backup", "logs", backup,
		"--follow", "--kubeconfig", m.plane.Get(m.t).Kubeconfig, "--namespace", m.namespace)
	cmd.Stdout, cmd.Stderr = l, l
	require.NoError(m.t, cmd.Start())
	go func() {
		defer close(l.done)
		if err := cmd.Wait(); err != nil {
			fmt.Fprintln(l, "ended:", err)
		}
	}()
	return l
}

// shows waits until the output has a text.
func (m *machine) shows(l *lines, text string) {
	m.t.Helper()
	m.retry("the log has "+text, func(context.Context) error {
		if out := l.String(); !strings.Contains(out, text) {
			return errors.New(out)
		}
		return nil
	})
}

var message = regexp.MustCompile(`msg=("(?:[^"\\]|\\.)*"|\S+)`)

// logsWhileItRuns backs up while the console and "logs --follow" show the log of the server's pod, and kills the server
// in the middle. Both show what the server has written before and afterwards, and all messages that are stored in the
// end, but for those about items.
func (m *machine) logsWhileItRuns() {
	m.t.Helper()
	began := time.Now()
	defer func() { m.t.Logf("the log was followed for %s", time.Since(began).Round(time.Second)) }()
	const anew = "the server was stopped or killed in the attempt before"
	page := m.console("/backups/slow/log")
	wait := velerov1.BackupResourceHook{Exec: &velerov1.ExecHook{Container: "tree",
		Command: []string{"/tree", "wait", "never", "/empty"}, OnError: velerov1.HookErrorModeContinue,
		Timeout: metav1.Duration{Duration: 5 * time.Second}}}
	m.create(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Spec: velerov1.BackupSpec{
		IncludedNamespaces: []string{m.shop}, IncludedResources: []string{"pods"},
		Hooks: velerov1.BackupHooks{Resources: []velerov1.BackupResourceHookSpec{{Name: "wait",
			IncludedNamespaces: []string{m.shop}, PreHooks: []velerov1.BackupResourceHook{wait}}}}}})
	followed := m.follow("slow")
	m.shows(followed, "running a hook: ")
	m.retry("the page has the line", page("running a hook"))
	m.killServer()
	m.shows(followed, anew)
	m.retry("the page has the line of the next server", page(anew))
	m.retry("the page has the line of the first one too", page("running a hook"))
	b := m.ended("slow")
	<-followed.done
	out := followed.String()
	require.Contains(m.t, out, "Backup slow has ended: "+string(b.Status.Phase))
	require.Equal(m.t, 1, strings.Count(out, anew), "no line is shown twice")
	file, err := os.Open(filepath.Join(m.bucket, "backups", "slow", "slow-logs.gz"))
	require.NoError(m.t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(m.t, err)
	stored, err := io.ReadAll(plain)
	require.NoError(m.t, err)
	messages := 0
	for _, found := range message.FindAllStringSubmatch(string(stored), -1) {
		text := found[1]
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		if strings.HasPrefix(text, "Backed up ") {
			continue
		}
		messages++
		require.Contains(m.t, out, strings.Split(text, "\n")[0])
	}
	require.Greater(m.t, messages, 5)
}

// console opens the console, and returns the function that looks for a text on one of its pages.
func (m *machine) console(path string) func(text string) func(context.Context) error {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), programs.Build(m.t, "server/cmd/cleat"), "console", "--no-browser",
		"--host", "localhost", "--kubeconfig", m.plane.Get(m.t).Kubeconfig, "--namespace", m.namespace)
	out, err := cmd.StdoutPipe()
	require.NoError(m.t, err)
	require.NoError(m.t, cmd.Start())
	m.t.Cleanup(func() { _ = cmd.Wait() })
	printed := bufio.NewScanner(out)
	link := ""
	for link == "" && printed.Scan() {
		if text := strings.TrimSpace(printed.Text()); strings.HasPrefix(text, "http://") {
			link = text
		}
	}
	require.NotEmpty(m.t, link)
	jar, err := cookiejar.New(nil)
	require.NoError(m.t, err)
	browser := &http.Client{Jar: jar}
	get := func(ctx context.Context, address string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", "application/json")
		answer, err := browser.Do(request)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		return io.ReadAll(answer.Body)
	}
	_, err = get(m.t.Context(), link)
	require.NoError(m.t, err)
	base, _, _ := strings.Cut(link, "/?")
	return func(text string) func(context.Context) error {
		return func(ctx context.Context) error {
			page, err := get(ctx, base+path)
			if err != nil {
				return err
			}
			var document struct{ Lines []string }
			if err := json.Unmarshal(page, &document); err != nil {
				return err
			}
			if !strings.Contains(strings.Join(document.Lines, "\n"), text) {
				return fmt.Errorf("%s", page)
			}
			return nil
		}
	}
}

// killServer kills the server of the namespace, as the kernel does when memory runs out.
func (m *machine) killServer() {
	m.t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(m.t, err)
	killed := 0
	for _, file := range found {
		line, _ := os.ReadFile(file)
		if !strings.HasPrefix(string(line), "/velero\x00server\x00") {
			continue
		}
		variables, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if !strings.Contains(string(variables), "VELERO_NAMESPACE="+m.namespace+"\x00") {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(m.t, err)
		require.NoError(m.t, syscall.Kill(id, syscall.SIGKILL))
		killed++
	}
	require.Equal(m.t, 1, killed)
}
