package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// browser is a real browser, which server/test/browser drives.
type browser struct {
	t     *testing.T
	base  string
	width int // of its window
	in    io.WriteCloser
	out   *json.Decoder
}

// command is one of server/test/browser.
type command struct {
	Do, URL, Script, Keys, Path string
	Width, Height               int
	Dark, NoScripts             bool
}

// browse opens the link of a console in a browser. It skips the test where no browser can be had, or the scripts of the
// console cannot.
func browse(t *testing.T, c *console) *browser {
	t.Helper()
	if !strings.Contains(c.user().get("/").text, "htmx.min") {
		t.Skip("the console was built without its scripts: there is no npm")
	}
	program, err := programs.BuildModule("server/test/browser")
	require.NoError(t, err)
	if out, err := exec.Command(program, "build").CombinedOutput(); err != nil {
		t.Skipf("there is no browser: %s", out)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	b := &browser{t: t, base: c.base, in: in, out: json.NewDecoder(bufio.NewReader(out))}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	b.view(1200, 900, false, false)
	b.do(command{Do: "open", URL: c.link})
	return b
}

// do has the browser do something, and fails the test for every error of a page and every request to another host.
func (b *browser) do(c command) json.RawMessage {
	b.t.Helper()
	require.NoError(b.t, json.NewEncoder(b.in).Encode(c))
	var answer struct {
		Value       json.RawMessage
		Error       string
		Log, Abroad []string
	}
	require.NoError(b.t, b.out.Decode(&answer))
	require.Empty(b.t, answer.Error, "%+v", c)
	require.Empty(b.t, answer.Log, "%+v", c)
	require.Empty(b.t, answer.Abroad, "%+v", c)
	return answer.Value
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
	axe, err := filepath.Abs("../browser/node_modules/axe-core/axe.min.js")
	require.NoError(b.t, err)
	var found []string
	require.NoError(b.t, json.Unmarshal(b.do(command{Do: "axe", Path: axe}), &found))
	require.Empty(b.t, found, path)
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
	return s, func() {
		t.Helper()
		require.NoError(t, s.Client.Get(t.Context(), s.Key("held"), held))
		held.Status.Phase, held.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, new(metav1.Now())
		require.NoError(t, s.Client.Update(t.Context(), held))
	}
}

// TestAcceptConsole_Browser uses the console in a real browser: pages on a desk and on a phone, in light and in dark,
// with and without scripts, live, with the keyboard alone, and when the console ends. CLEAT_TEST_PICTURES names a
// folder for pictures.
func TestAcceptConsole_Browser(t *testing.T) {
	t.Parallel()
	s, free := shop(t)
	c := open(t, s)
	b := browse(t, c)
	all := append(paths("done"), "/queue/waits", "/backups/waits", "/restores/again", "/restores/again/log",
		"/restores/again/delete", "/schedules/nightly", "/schedules/nightly/pause")
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // there is one browser
			b.t = t
			test(t)
		})
		b.t = t
	}
	run("Pages", func(*testing.T) { b.look("desk", 1200, 900, all) })
	run("Phone", func(*testing.T) { b.look("phone", 360, 740, all) })
	run("NoScripts", func(*testing.T) {
		b.view(1200, 900, false, true)
		b.open("/queue")
		b.shows("Without scripts this page stays as it is")
		b.shows("waits")
		b.view(1200, 900, false, false)
	})
	run("Live", func(t *testing.T) { live(t, b, free) })
	run("Keyboard", func(t *testing.T) { keyboard(t, s, b) })
	run("Away", func(t *testing.T) { away(t, c, b) })
}

// look requires that all pages can be used, in light and in dark.
func (b *browser) look(name string, width, height int, paths []string) {
	b.t.Helper()
	for _, dark := range []bool{false, true} {
		b.view(width, height, dark, false)
		for _, path := range paths {
			b.open(path)
			b.requireUsable(fmt.Sprintf("%s %s, dark: %v", name, path, dark))
			if folder := os.Getenv("CLEAT_TEST_PICTURES"); folder != "" {
				file := fmt.Sprintf("%s-%v%s.png", name, dark, strings.ReplaceAll(path, "/", "-"))
				b.do(command{Do: "shot", Path: filepath.Join(folder, file)})
			}
		}
	}
}

// live has a backup go through the queue on the screen. What somebody has opened stays open.
func live(t *testing.T, b *browser, free func()) {
	t.Helper()
	b.view(1200, 900, false, false)
	b.open("/queue")
	b.shows("the limit of 1 running backup is reached")
	b.open("/backups/waits")
	b.until(`document.querySelector("#page details:last-of-type")`)
	b.do(command{Do: "eval", Script: `document.querySelectorAll("#page details").forEach(d => d.open = true)`})
	free()
	b.until(`document.querySelector("#page .mood.good")?.innerText === "Completed"`)
	require.True(t, eval[bool](b, `[...document.querySelectorAll("#page details")].some(d => d.open)`))
	require.True(t, eval[bool](b, `document.getElementById("connection").hidden`))
	b.open("/queue")
	b.shows("No backup is running or waiting.")
}

// away ends the console while a page is open.
func away(t *testing.T, c *console, b *browser) {
	t.Helper()
	b.open("/queue")
	b.shows("No backup is running or waiting.")
	process, err := os.FindProcess(c.pid)
	require.NoError(t, err)
	require.NoError(t, process.Signal(os.Interrupt))
	require.NoError(t, json.NewEncoder(b.in).Encode(command{Do: "await",
		Script: `!document.getElementById("connection").hidden`})) // the errors of the connection are in its log
	var answer struct{ Error string }
	require.NoError(t, b.out.Decode(&answer))
	require.Empty(t, answer.Error)
}

// keyboard deletes a backup with the keyboard alone.
func keyboard(t *testing.T, s *site.Site, b *browser) {
	t.Helper()
	const tab, enter = "\t", "\r"
	focused := `(document.activeElement.innerText || document.activeElement.name || "")`
	press := func(text string) {
		t.Helper()
		for range 60 {
			if eval[string](b, focused) == text {
				require.NotEqual(t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"),
					"the focus on %q can be seen", text)
				b.keys(enter)
				return
			}
			b.keys(tab)
		}
		require.Fail(t, "the keyboard does not reach it", text)
	}
	b.open("/backups")
	b.keys(tab)
	require.Equal(t, "Skip to the content", eval[string](b, focused), "it is the first one")
	require.Greater(t, eval[float64](b, "document.activeElement.getBoundingClientRect().right"), 0.0, "it can be seen")
	b.keys(enter)
	b.until(`document.activeElement.id === "main"`)
	press("done")
	b.until(`location.pathname === "/backups/done"`)
	press("Delete")
	b.until(`location.pathname === "/backups/done/delete"`)
	b.shows("restore again")
	press("Delete done")
	b.until(`location.pathname === "/backups/done"`)
	s.AwaitGone(&velerov1.Backup{}, "done")
	b.shows("there is no backup done")
}
