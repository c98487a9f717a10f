package console_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// neighbour is another user of the machine, with a server at another port.
type neighbour struct {
	dir string // that everybody may write to, such as /tmp

	mu  sync.Mutex
	got bytes.Buffer // requests of the browser
}

// ServeHTTP notes a request.
func (n *neighbour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(&n.got, "%s\n", r.Host)
	_ = r.Header.Write(&n.got) // to memory
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte(`<!doctype html><title>neighbour</title><p>neighbour`))
}

// taken returns what the server has got since the last call.
func (n *neighbour) taken() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.got.Reset()
	return n.got.String()
}

// serve starts the server, and returns its port.
func (n *neighbour) serve(t *testing.T) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: n} //nolint:gosec // of a test
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}

// reads returns what the neighbour can read: arguments and environments of processes, and files.
func (n *neighbour) reads(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr "\0" "\n"
		find "$0" -type f -exec cat {} + 2>/dev/null; true`, n.dir)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else {
		cmd.Args[2] = `cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" "\n"`
	}
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// TestAcceptSecurity_ConsoleNeighbours has the console open a browser while another user of the machine reads what all
// can read, has a server on another port of localhost, and asks for pages with all of it.
func TestAcceptSecurity_ConsoleNeighbours(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "nightly"}}))
	dir, err := os.MkdirTemp("/tmp", "cleat-neighbours-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // as /tmp
	n := &neighbour{dir: dir}
	own := t.TempDir()
	asked, done := filepath.Join(own, "asked"), filepath.Join(own, "done")
	program := fmt.Sprintf("#!/bin/sh\nprintf %%s \"$1\" >%[1]s.new\nmv %[1]s.new %[1]s\n"+
		"while [ ! -e %[2]s ]; do sleep 0.1; done\n", asked, done)
	require.NoError(t, os.WriteFile(filepath.Join(own, "xdg-open"), []byte(program), 0o700)) //nolint:gosec // it is run

	c := start(t, s, []string{"TMPDIR=" + dir, "PATH=" + own + ":" + os.Getenv("PATH")})
	t.Cleanup(func() { _ = os.WriteFile(done, nil, 0o600) })
	var path string
	s.Eventually("a browser is opened", func(context.Context) (bool, error) {
		text, err := os.ReadFile(asked)
		path = string(text)
		return err == nil, nil
	})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	link := nextField.FindStringSubmatch(string(text))
	require.NotNil(t, link, string(text))
	name, secret := strings.TrimPrefix(c.base, "http://"), strings.TrimPrefix(link[1], c.base+"/?session=")
	name, port, err := net.SplitHostPort(name)
	require.NoError(t, err)
	require.Len(t, secret, 43)

	// what all can read has neither the secret nor the name
	seen := n.reads(t)
	require.Contains(t, seen, path, "the arguments of the browser")
	for _, hidden := range []string{secret, name, strings.TrimPrefix(c.link, c.base+"/?session=")} {
		require.NotContains(t, seen, hidden)
	}
	for of, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(of)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), of)
	}
	// the requests of the browser cannot be had at another address with the same port
	for _, address := range []string{"127.0.0.1", "0.0.0.0", "::1", "::"} {
		other, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err == nil {
			_ = other.Close()
		}
		require.Error(t, err, address)
	}

	user := c.user()
	b := blank(t, c)
	b.try(command{Do: "open", URL: "file://" + path})
	b.try(command{Do: "await", Script: fmt.Sprintf(`location.href === %q && document.readyState === "complete"`,
		c.base+"/")})
	s.Eventually("the file is removed", func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Dir(path))
		return os.IsNotExist(err), nil
	})
	nobody := &visitor{console: c}
	late := nobody.get("/?session=" + secret)
	require.Equal(t, http.StatusForbidden, late.code, "who reads the link later")
	require.Empty(t, late.header.Get("Set-Cookie"))

	// servers at other ports get neither the cookie nor the name
	next := n.serve(t)
	b.try(command{Do: "eval", Script: `location.assign("http://localhost:` + next + `/")`})
	b.try(command{Do: "await", Script: `document.title === "neighbour"`})
	require.NotEmpty(t, n.taken())
	for _, host := range []string{"127.0.0.1", "localhost", "other.localhost"} {
		b.try(command{Do: "open", URL: c.base + "/queue"})
		b.try(command{Do: "eval", Script: fmt.Sprintf(`location.assign("http://%s:%s/")`, host, next)})
		b.try(command{Do: "await", Script: fmt.Sprintf(`location.host === "%s:%s" && document.title === "neighbour"`, host,
			next)})
		taken := n.taken()
		require.Contains(t, taken, host)
		require.NotContains(t, taken, name)
		require.NotContains(t, taken, "cleat-console")
	}
	// who has the name all the same, and so the cookie, does nothing
	b.try(command{Do: "open", URL: "http://" + name + ":" + next + "/"})
	_, cookie, found := strings.Cut(n.taken(), "Cookie: ")
	require.True(t, found)
	thief := &visitor{console: c, cookie: strings.TrimSpace(strings.SplitN(cookie, "\n", 2)[0])}
	require.Equal(t, user.cookie, thief.cookie)
	const cancel = "/backups/nightly/cancel"
	got := thief.post(cancel, thief.form(cancel))
	require.Equal(t, http.StatusForbidden, got.code)
	require.Contains(t, got.text, "this tab shows pages alone")
	cancelled := func() bool {
		var b velerov1.Backup
		require.NoError(t, s.Client.Get(t.Context(), s.Key("nightly"), &b))
		return velerov1.CancelRequested(&b)
	}
	require.False(t, cancelled())

	// the tab is loaded again, and another one acts with its token
	b.try(command{Do: "open", URL: c.base + cancel})
	b.do(command{Do: "eval", Script: "location.reload()"})
	b.shows("Cancel nightly")
	other := b.another()
	other.open(cancel)
	other.until(`!!sessionStorage.getItem("tab")`)
	other.press("Cancel nightly")
	other.arrives("/backups/nightly")
	require.True(t, cancelled())
}
