package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/cleat-dev/cleat/server/test/localcluster/debian"
)

// command is a line that the program reads. The commands of several tabs are obeyed at the same time.
type command struct {
	ID  int // of the answer
	Tab int
	// Do is "tab" (opens Tab, with the cookies of the tab With, or with none if that is 0), "close", "open" (URL), "eval"
	// (Script), "await" (until Script is true), "keys" (Keys, as chromedp/kb has them), "view" (Width, Height, Dark,
	// NoScripts), "shot" (a picture of the window, to Path) or "axe" (the script at Path, with Rules, or with all).
	Do, URL, Script, Keys, Path string
	With                        int
	Width, Height               int64
	Dark, NoScripts             bool
	Rules                       []string
}

// answer is the line that answers a command.
type answer struct {
	ID     int             `json:"id"`
	Value  json.RawMessage `json:"value,omitempty"`  // of a script; what axe has found
	Error  string          `json:"error,omitempty"`  // why the command has failed
	Log    []string        `json:"log,omitempty"`    // errors of the tab since the last command
	Abroad []string        `json:"abroad,omitempty"` // addresses of other hosts that it has asked for since then
}

// awaitWithin is how long "await" waits.
const awaitWithin = 3 * time.Minute

// isBroken is the exit status if there is a browser, and it does not run.
const isBroken = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		if broken := (*debian.BrokenError)(nil); errors.As(err, &broken) {
			os.Exit(isBroken)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	found, err := findChromium(ctx)
	if err != nil || slices.Equal(args, []string{"build"}) {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found.program), chromedp.NoSandbox,
		chromedp.Env("LD_LIBRARY_PATH="+found.libraries, "FONTCONFIG_FILE="+found.fonts),
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("disable-lcd-text", true))
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		return fmt.Errorf("start the browser: %w", err)
	}
	b := &browser{ctx: ctx, tabs: map[int]*tab{}}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var answering sync.WaitGroup
	defer answering.Wait()
	for {
		var c command
		if err := in.Decode(&c); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answering.Go(func() {
			a := b.answer(&c)
			b.mu.Lock()
			defer b.mu.Unlock()
			_ = out.Encode(a) // nobody reads it any more
		})
	}
}

// browser is one process with many tabs.
type browser struct {
	ctx context.Context // of a tab that nobody uses

	mu   sync.Mutex
	tabs map[int]*tab
}

func (b *browser) answer(c *command) (a answer) {
	a.ID = c.ID
	b.mu.Lock()
	t := b.tabs[c.Tab]
	with := b.tabs[c.With]
	b.mu.Unlock()
	var err error
	switch {
	case c.Do == "tab":
		err = b.open(c.Tab, with)
	case t == nil:
		err = fmt.Errorf("there is no tab %d", c.Tab)
	case c.Do == "close":
		t.cancel()
	default:
		err = t.do(c, &a)
		a.Log, a.Abroad = t.heard()
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// open opens a tab.
func (b *browser) open(number int, with *tab) error {
	t := &tab{}
	options := []chromedp.ContextOption{chromedp.WithListener(t.hear)}
	parent := b.ctx
	if with != nil {
		parent = with.ctx
	} else {
		options = append(options, chromedp.WithNewBrowserContext())
	}
	t.ctx, t.cancel = chromedp.NewContext(parent, options...)
	if err := t.begin(); err != nil {
		t.cancel()
		return fmt.Errorf("open a tab: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tabs[number] = t
	return nil
}

// do obeys a command for a tab.
func (t *tab) do(c *command, a *answer) error {
	ctx, cancel := context.WithTimeout(t.ctx, 2*awaitWithin)
	defer cancel()
	switch c.Do {
	case "open":
		t.visit(strings.Join(strings.SplitN(c.URL, "/", 4)[:3], "/"))
		return chromedp.Do(ctx, chromedp.Navigate(c.URL))
	case "eval":
		return evaluate(ctx, c.Script, a)
	case "await":
		return await(ctx, c.Script)
	case "keys":
		return chromedp.Do(ctx, chromedp.KeyEvent(c.Keys))
	case "view":
		return view(ctx, c)
	case "shot":
		picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		return os.WriteFile(c.Path, picture, 0o600)
	case "axe":
		return axe(ctx, c, a)
	default:
		return fmt.Errorf("unknown command %q", c.Do)
	}
}

// view changes what the window is like. Nothing in it moves by itself.
func view(ctx context.Context, c *command) error {
	scheme := "light"
	if c.Dark {
		scheme = "dark"
	}
	_, size := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: c.Width, Height: c.Height, DeviceScaleFactor: 1, Mobile: c.Width < 600})
	_, media := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}})
	_, scripts := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: c.NoScripts})
	return errors.Join(size, media, scripts)
}

// feeds is a script that runs before those of each page. It notes the streams of events of the page, and whether the
// first event has come.
const feeds = `const Stream = window.EventSource;
window.feeds = [];
window.EventSource = class extends Stream {
	constructor(...args) {
		super(...args);
		this.addEventListener("page", () => { this.came = true; });
		window.feeds.push(this);
	}
};`

// findings is a script that returns what axe finds on a page.
const findings = `axe.run(document, {resultTypes: ["violations"], ...%s}).then(r => r.violations.map(v =>
	v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join(" ")))`

// axe checks the page that is open.
func axe(ctx context.Context, c *command, a *answer) error {
	there, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!window.axe"))
	if err != nil {
		return err
	}
	if !there {
		script, err := os.ReadFile(c.Path)
		if err != nil {
			return err
		}
		if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](string(script))); err != nil {
			return err
		}
	}
	only := []byte("{}")
	if len(c.Rules) > 0 {
		only, err = json.Marshal(map[string]any{"runOnly": map[string]any{"type": "rule", "values": c.Rules}})
		if err != nil {
			return err
		}
	}
	return evaluate(ctx, fmt.Sprintf(findings, only), a)
}

// evaluate evaluates a script, and waits for the promise if it returns one.
func evaluate(ctx context.Context, script string, a *answer) error {
	value, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](script, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	a.Value = value
	return err
}

func await(ctx context.Context, script string) error {
	for began := time.Now(); ; {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+script+")"))
		if err == nil && is {
			return nil
		}
		if time.Since(began) > awaitWithin {
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText")) // for the message alone
			return fmt.Errorf("%s is not true after %s (%v): %s", script, awaitWithin, err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
