package console_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// command is one of server/test/browser.
type command struct {
	ID, Tab, With               int
	Do, URL, Script, Keys, Path string
	Width, Height               int
	Dark, NoScripts             bool
	Rules                       []string
}

// reply is the answer of server/test/browser to a command.
type reply struct {
	ID          int
	Value       json.RawMessage
	Error       string
	Log, Abroad []string
}

// chromium is the process of the browser, which all tests share. Each has tabs of its own.
type chromium struct {
	start sync.Once
	away  error // why there is no browser
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  programs.Output // on stderr

	mu      sync.Mutex
	last    int // number that a command or a tab has got
	waiting map[int]chan reply
}

var shared = chromium{waiting: map[int]chan reply{}}

// run starts the browser.
func (c *chromium) run() error {
	program, err := programs.BuildModule("server/test/browser")
	if err != nil {
		return err
	}
	if out, err := exec.Command(program, "build").CombinedOutput(); err != nil {
		const isBroken = 3 // of server/test/browser
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == isBroken {
			return fmt.Errorf("%w: %s", err, out)
		}
		return fmt.Errorf("%w: %s", errNoBrowser, out)
	}
	c.cmd = exec.Command(program)
	c.cmd.Stderr = io.MultiWriter(os.Stderr, &c.said)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go c.read(json.NewDecoder(bufio.NewReader(out)))
	return nil
}

var errNoBrowser = errors.New("there is no browser")

// read passes on answers until the browser ends.
func (c *chromium) read(answers *json.Decoder) {
	for {
		var a reply
		err := answers.Decode(&a)
		c.mu.Lock()
		if err != nil {
			for id, waits := range c.waiting {
				waits <- reply{ID: id, Error: "the browser has ended: " + err.Error() + ": " + c.said.String()}
			}
			c.waiting = nil
			c.mu.Unlock()
			return
		}
		c.waiting[a.ID] <- a
		delete(c.waiting, a.ID)
		c.mu.Unlock()
	}
}

// number returns a number that no command and no tab has.
func (c *chromium) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

// ask has the browser do something.
func (c *chromium) ask(t *testing.T, what command) reply {
	t.Helper()
	what.ID = c.number()
	answer := make(chan reply, 1)
	require.NoError(t, c.send(&what, answer))
	return <-answer
}

// send gives a command to the browser. The lock is free afterwards: a test that fails with it would make all others wait.
func (c *chromium) send(what *command, answer chan reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return fmt.Errorf("the browser has ended: %s", c.said.String())
	}
	c.waiting[what.ID] = answer
	return json.NewEncoder(c.in).Encode(what)
}

// stop ends the browser, if one was started.
func (c *chromium) stop() int {
	c.start.Do(func() {}) // no test may start it after this
	if c.cmd == nil || c.cmd.Process == nil {
		return 0
	}
	_ = c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "the browser:", err)
		return 1
	}
	return 0
}

// browser is a tab of a real browser, which server/test/browser drives.
type browser struct {
	t     *testing.T
	base  string
	width int // of its window
	tab   int
}

// browse opens a link of a console in a browser, or no page if it is in a cluster.
func browse(t *testing.T, c *console) *browser {
	t.Helper()
	b := blank(t, c)
	if c.link != "" {
		b.do(command{Do: "open", URL: c.newLink()})
		b.until(`location.search === "" && document.readyState === "complete"`)
	}
	return b
}

// blank opens a tab for a console. It skips the test where no browser can be had, or the scripts of the console cannot.
func blank(t *testing.T, c *console) *browser {
	t.Helper()
	if !strings.Contains((&visitor{console: c}).get("/").text, "pico.min") {
		t.Skip("the console was built without its scripts: there is no npm")
	}
	shared.start.Do(func() { shared.away = shared.run() })
	if errors.Is(shared.away, errNoBrowser) {
		t.Skip(shared.away)
	}
	require.NoError(t, shared.away)
	return tab(t, c.base, 0)
}

// tab opens a tab until the end of the test, with the cookies of another one, or with none.
func tab(t *testing.T, base string, with int) *browser {
	t.Helper()
	b := &browser{t: t, base: base, tab: shared.number()}
	b.do(command{Do: "tab", With: with})
	t.Cleanup(func() {
		b.t = t
		b.do(command{Do: "close"})
	})
	b.view(1200, 900, false, false)
	return b
}

// another opens another tab with the same cookies.
func (b *browser) another() *browser { b.t.Helper(); return tab(b.t, b.base, b.tab) }

// do has the browser do something, and fails the test for every error of a page and every request to another host.
func (b *browser) do(c command) json.RawMessage {
	b.t.Helper()
	answer := b.try(c)
	require.Empty(b.t, answer.Log, "%+v", c)
	require.Empty(b.t, answer.Abroad, "%+v", c)
	return answer.Value
}

// try is like do where errors of the page are expected.
func (b *browser) try(c command) reply {
	b.t.Helper()
	c.Tab = b.tab
	answer := shared.ask(b.t, c)
	require.Empty(b.t, answer.Error, "%+v", c)
	return answer
}

func (b *browser) open(path string) { b.t.Helper(); b.do(command{Do: "open", URL: b.base + path}) }

func (b *browser) view(width, height int, dark, noScripts bool) {
	b.t.Helper()
	b.width = width
	b.do(command{Do: "view", Width: width, Height: height, Dark: dark, NoScripts: noScripts})
}

// until waits until a script is true.
func (b *browser) until(script string) { b.t.Helper(); b.do(command{Do: "await", Script: script}) }

// shows waits until the page has a text.
func (b *browser) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (b *browser) keys(keys string) { b.t.Helper(); b.do(command{Do: "keys", Keys: keys}) }

// eval returns the value of a script.
func eval[T any](b *browser, script string) (value T) {
	b.t.Helper()
	require.NoError(b.t, json.Unmarshal(b.do(command{Do: "eval", Script: script}), &value))
	return value
}

// requireUsable requires that axe finds nothing on the page, and that it is not wider than the window.
func (b *browser) requireUsable(path string) {
	b.t.Helper()
	b.requireNoFindings(path)
	b.requireNarrow(path)
}

// requireNoFindings requires that axe finds nothing on the page by its rules, or by those that are given.
func (b *browser) requireNoFindings(path string, rules ...string) {
	b.t.Helper()
	require.JSONEq(b.t, "[]", string(b.axe(rules...)), path)
}

// axe returns what axe finds on the page.
func (b *browser) axe(rules ...string) json.RawMessage {
	b.t.Helper()
	script, err := filepath.Abs("../browser/node_modules/axe-core/axe.min.js")
	require.NoError(b.t, err)
	return b.do(command{Do: "axe", Path: script, Rules: rules})
}

// requireNarrow requires that the page is not wider than the window.
func (b *browser) requireNarrow(path string) {
	b.t.Helper()
	require.LessOrEqual(b.t, eval[int](b, "document.documentElement.scrollWidth"), b.width, "%s is too wide", path)
}

// shop is a site with a server, whose only slot is taken, a backup that waits, and one that has ended with its restore.
func shop(t *testing.T) (s *site.Site, free func()) {
	t.Helper()
	s = site.New(t, "cleat.dev/s3")
	namespace := s.Workload(3)
	s.Serve("--concurrent-backups", "1")
	s.Available()
	s.Must("backup", "create", "done", "--include-namespaces", namespace, "--wait")
	s.Must("restore", "create", "again", "--from-backup", "done", "--namespace-mappings", namespace+":"+namespace+"-2",
		"--wait")
	s.Must("schedule", "create", "nightly", "--schedule", "0 3 * * *", "--include-namespaces", namespace)
	held := hold(s, "held")
	s.Must("backup", "create", "waits", "--include-namespaces", namespace)
	return s, func() { t.Helper(); end(s, held) }
}

// end has a held backup end.
func end(s *site.Site, held *velerov1.Backup) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Get(s.T.Context(), s.Key(held.Name), held))
	held.Status.Phase, held.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, new(metav1.Now())
	require.NoError(s.T, s.Client.Update(s.T.Context(), held))
}
