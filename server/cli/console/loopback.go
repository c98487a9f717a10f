package console

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"github.com/cleat-dev/cleat/server/internal/console"
)

// listeners returns where the console listens. On the loopback addresses it has its port on all that browsers try for
// a name below localhost: whoever had it on another one would get the requests, with the secrets in them.
func (f *flags) listeners(ctx context.Context) ([]net.Listener, error) {
	var config net.ListenConfig
	listen := func(address string) (net.Listener, error) {
		listener, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen at %s: %w", address, err)
		}
		return listener, nil
	}
	if f.inCluster {
		listener, err := listen(f.listen)
		return []net.Listener{listener}, err
	}
	const tries = 20
	for n := 1; ; n++ {
		first, err := listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
		if err != nil || !hasIPv6() {
			return []net.Listener{first}, err
		}
		_, port, err := net.SplitHostPort(first.Addr().String())
		if err != nil {
			return nil, err
		}
		second, err := listen(net.JoinHostPort("::1", port))
		if err == nil {
			return []net.Listener{first, second}, nil
		}
		_ = first.Close() // nobody knows it yet
		if f.port != 0 || n == tries {
			return nil, err
		}
	}
}

// hasIPv6 reports whether this machine has the loopback address of IPv6, or may have it.
func hasIPv6() bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.Equal(net.IPv6loopback) {
			return true
		}
	}
	return false
}

func printLink(w io.Writer, door *console.Loopback) {
	link, _ := door.Link()
	fmt.Fprintf(w, "  %s\n\n", link)
}

// printLinks prints a link for each line that somebody enters.
func printLinks(w io.Writer, door *console.Loopback) {
	stayInBackground()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		printLink(w, door)
	}
}

// linkFile is a file that leads to a link, and that its owner alone may read. Other users of this machine see the
// arguments of all processes, so a browser gets its path instead of the link.
type linkFile struct {
	path   string
	remove func()
}

// newLinkFile writes a file, which is removed when its link has been opened or is too old.
func newLinkFile(door *console.Loopback) (*linkFile, error) {
	dir, err := os.MkdirTemp("", "cleat-console-") // of mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a directory for its link: %w", err)
	}
	f := &linkFile{path: filepath.Join(dir, "open.html"), remove: sync.OnceFunc(func() {
		_ = os.RemoveAll(dir) // its link is worth nothing any more
	})}
	link, spent := door.Link()
	link = html.EscapeString(link)
	text := `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url=` + link + `">
<title>cleat</title>
<p><a href="` + link + `">Open the console</a></p>
`
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.remove()
		return nil, fmt.Errorf("write its link: %w", err)
	}
	go func() {
		<-spent
		f.remove()
	}()
	return f, nil
}

// openBrowser opens a file in the browser of the user, if there is one. A link was printed anyway.
func openBrowser(ctx context.Context, path string) {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.CommandContext(ctx, "open", path)
	case "windows":
		cmd = exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", path)
	default:
		cmd = exec.CommandContext(ctx, "xdg-open", path)
	}
	if err := cmd.Start(); err == nil {
		go func() { _ = cmd.Wait() }() // a browser that cannot be opened is no error
	}
}
