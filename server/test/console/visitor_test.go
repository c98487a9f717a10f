package console_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/site"
)

// console is a running console.
type console struct {
	t     *testing.T
	base  string // "http://NAME.localhost:41234"
	link  string // the first one; "" in a cluster
	links <-chan string
	in    io.Writer
	pid   int
}

var address = regexp.MustCompile(`http://[0-9a-z.]+:\d+/\?session=\S+|listens at \S+:(\d+)`)

// open starts a console of a site until the end of the test.
func open(t *testing.T, s *site.Site, args ...string) *console {
	t.Helper()
	return start(t, s, nil, append([]string{"--no-browser"}, args...)...)
}

// start is open for a console that may open a browser.
func start(t *testing.T, s *site.Site, environment []string, args ...string) *console {
	t.Helper()
	all := append([]string{"console", "--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace}, args...)
	cmd := exec.Command(site.Program(t), all...)
	cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), environment...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		require.NoError(t, cmd.Wait(), "ctrl-c ends it without an error")
	})
	links, lines := make(chan string, 1), bufio.NewScanner(out)
	c := &console{t: t, pid: cmd.Process.Pid, in: in, links: links}
	for c.base == "" && lines.Scan() {
		switch found := address.FindStringSubmatch(lines.Text()); {
		case found == nil:
		case found[1] != "":
			c.base = "http://console.localhost:" + found[1]
		default:
			link, err := url.Parse(found[0])
			require.NoError(t, err)
			c.base, c.link = link.Scheme+"://"+link.Host, found[0]
		}
	}
	require.NotEmpty(t, c.base, "the console has printed no address")
	go func() {
		defer close(links)
		for lines.Scan() {
			if found := address.FindString(lines.Text()); found != "" {
				links <- found
			}
		}
	}()
	return c
}

// newLink presses enter, and returns the link that is printed.
func (c *console) newLink() string {
	c.t.Helper()
	_, err := io.WriteString(c.in, "\n")
	require.NoError(c.t, err)
	return <-c.links
}

// inCluster starts a console that acts with the tokens of requests. Its kubeconfig, with all rights, has the address of
// the API server.
func inCluster(t *testing.T, s *site.Site, args ...string) *console {
	t.Helper()
	return open(t, s, append([]string{"--in-cluster", "--listen", "127.0.0.1:0"}, args...)...)
}

// TestConsoleGuide starts the consoles of the guide, at free ports and without a browser.
func TestConsoleGuide(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	guide, err := os.ReadFile("../../docs/console.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^    cleat console(.*)$`).FindAllStringSubmatch(string(guide), -1)
	require.Len(t, commands, 2)
	for _, command := range commands {
		args := strings.Fields(command[1])
		if len(args) > 0 {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		c := open(t, s, args...)
		require.Equal(t, http.StatusUnauthorized, (&visitor{console: c}).get("/").code)
	}
	for _, wrong := range [][]string{{"--port", "-1"}, {"--in-cluster", "--port", "1"}, {"--host", "a:1"},
		{"--host", "a,b"},
		{"--recheck", "1ms"},
		{"--in-cluster", "--tls-cert-file", "a"}} {
		_, _, err := s.Run(append([]string{"console"}, wrong...)...)
		require.Error(t, err, wrong)
	}
}

// visitor sends requests to a console.
type visitor struct {
	*console
	cookie, token string
	tab           string // the token of the tab
}

// user returns the user of this machine, who has opened the link.
func (c *console) user() *visitor {
	c.t.Helper()
	v := &visitor{console: c}
	cookie := v.enter(v.get(strings.TrimPrefix(c.newLink(), c.base)), "/")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		require.Contains(c.t, cookie, want)
	}
	return v
}

var nextField = regexp.MustCompile(`<meta http-equiv="refresh" content="0;url=([^"]*)">`)
var tabField = regexp.MustCompile(`<meta name="tab" content="([^"]+)">`)

// enter takes what lets a browser in from an answer, and returns the cookie.
func (v *visitor) enter(got answer, next string) (cookie string) {
	v.t.Helper()
	require.Equal(v.t, http.StatusOK, got.code, got.text)
	on, tab := nextField.FindStringSubmatch(got.text), tabField.FindStringSubmatch(got.text)
	require.NotNil(v.t, on, got.text)
	require.NotNil(v.t, tab, got.text)
	require.Equal(v.t, next, on[1])
	v.tab, cookie = tab[1], got.header.Get("Set-Cookie")
	v.cookie, _, _ = strings.Cut(cookie, ";")
	return cookie
}

// account returns a visitor whose requests have a bearer token.
func (c *console) account(token string) *visitor { return &visitor{console: c, token: token} }

// answer is the answer to a request.
type answer struct {
	code   int
	header http.Header
	text   string
	size   int // bytes on the wire
	took   time.Duration
}

func (v *visitor) get(path string, headers ...string) answer {
	v.t.Helper()
	return v.send(http.MethodGet, path, nil, headers...)
}

// json gets the document of a page.
func (v *visitor) json(path string, into any) answer {
	v.t.Helper()
	got := v.get(path, "Accept", "application/json")
	require.Equal(v.t, "application/json", got.header.Get("Content-Type"), "%s: %s", path, got.text)
	require.NoError(v.t, json.Unmarshal([]byte(got.text), into), "%s: %s", path, got.text)
	return got
}

// post sends a form as a browser does.
func (v *visitor) post(path string, form url.Values, headers ...string) answer {
	v.t.Helper()
	return v.send(http.MethodPost, path, form, append([]string{"Origin", v.base, "Sec-Fetch-Site", "same-origin"},
		headers...)...)
}

// send sends a request. An empty header is not sent.
func (v *visitor) send(method, path string, form url.Values, headers ...string) answer {
	v.t.Helper()
	if v.tab != "" && form != nil && !form.Has("tab") {
		form = maps.Clone(form)
		form.Set("tab", v.tab)
	}
	began := time.Now()
	response := v.request(v.t.Context(), method, path, form, headers...)
	defer response.Body.Close()
	counted := &counter{r: response.Body}
	var body io.Reader = counted
	if response.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(counted)
		require.NoError(v.t, err)
		body = plain
	}
	text, err := io.ReadAll(body)
	require.NoError(v.t, err)
	return answer{response.StatusCode, response.Header, string(text), counted.n, time.Since(began)}
}

func (v *visitor) request(ctx context.Context, method, path string, form url.Values, headers ...string) *http.Response {
	v.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, v.base+path, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	request.Header.Set("Accept", "text/html,*/*")
	request.Header.Set("Accept-Encoding", "gzip")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if v.cookie != "" {
		request.Header.Set("Cookie", v.cookie)
	}
	if v.token != "" {
		request.Header.Set("Authorization", "Bearer "+v.token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			request.Header.Del(headers[i])
		}
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(request)
	require.NoError(v.t, err)
	return response
}

// transport finds names below localhost as browsers do.
var transport = &http.Transport{DisableCompression: true,
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if name, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(name, ".localhost") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)
var uidField = regexp.MustCompile(`name="uid" value="([^"]+)"`)

// form returns the fields of the form of a page that asks before it acts.
func (v *visitor) form(path string) url.Values {
	v.t.Helper()
	page := v.get(path)
	require.Equal(v.t, http.StatusOK, page.code, page.text)
	token, uid := tokenField.FindStringSubmatch(page.text), uidField.FindStringSubmatch(page.text)
	require.NotNil(v.t, token, page.text)
	require.NotNil(v.t, uid, page.text)
	return url.Values{"token": {token[1]}, "uid": {uid[1]}}
}

// forged returns the token of the forms of an account.
func forged(token string) string {
	sum := hmac.New(sha256.New, []byte(token))
	sum.Write([]byte("form"))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// events are those of an open page.
type events struct {
	t    *testing.T
	next chan string // the main part of the page; closed at the end
	size func() int  // bytes on the wire so far
}

// events opens a page, and closes it at the end of the test.
func (v *visitor) events(path string) *events {
	v.t.Helper()
	ctx, stop := context.WithCancel(v.t.Context())
	response := v.request(ctx, http.MethodGet, path, nil, "Accept", "text/event-stream")
	v.t.Cleanup(func() {
		stop()
		_ = response.Body.Close()
	})
	require.Equal(v.t, http.StatusOK, response.StatusCode)
	require.Equal(v.t, "text/event-stream", response.Header.Get("Content-Type"))
	counted := &counter{r: response.Body}
	plain, err := gzip.NewReader(counted)
	require.NoError(v.t, err)
	e := &events{t: v.t, next: make(chan string, 1000), size: func() int { return counted.n }}
	go func() {
		defer close(e.next)
		lines := bufio.NewReader(plain)
		var name string
		var text strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				text.WriteString(data)
			}
			if event, ok := strings.CutPrefix(line, "event: "); ok {
				name = strings.TrimSpace(event)
			}
			if line == "\n" {
				if name == "page" {
					e.next <- text.String()
				}
				text.Reset()
			}
		}
	}()
	return e
}

// until returns the first part that has a text.
func (e *events) until(text string) string {
	e.t.Helper()
	last := ""
	limit := time.After(2 * time.Minute)
	for {
		select {
		case part, more := <-e.next:
			if !more {
				require.Fail(e.t, "the page has ended", "without %q: %s", text, last)
			}
			if last = part; strings.Contains(part, text) {
				return part
			}
		case <-limit:
			require.Fail(e.t, "the page does not show it", "%q: %s", text, last)
		}
	}
}
