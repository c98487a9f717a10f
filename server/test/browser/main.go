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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// command is a line that the program reads.
type command struct {
	// Do is "open" (URL), "eval" (Script), "await" (until Script is true), "keys" (Keys, as chromedp/kb has them), "view"
	// (Width, Height, Dark, NoScripts), "shot" (a picture, to Path) or "axe".
	Do, URL, Script, Keys, Path string
	Width, Height               int64
	Dark, NoScripts             bool
}

// answer is the line that answers a command.
type answer struct {
	Value  json.RawMessage `json:"value,omitempty"`  // of a script; what axe has found
	Error  string          `json:"error,omitempty"`  // why the command has failed
	Log    []string        `json:"log,omitempty"`    // errors of pages since the last command
	Abroad []string        `json:"abroad,omitempty"` // addresses of other hosts that were asked for since then
}

// awaitWithin is how long "await" waits.
const awaitWithin = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	found, err := findChromium(ctx)
	if err != nil || slices.Equal(args, []string{"build"}) {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found.program), chromedp.NoSandbox,
		chromedp.Env("LD_LIBRARY_PATH="+found.libraries), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		return fmt.Errorf("start the browser: %w", err)
	}
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(ctx, cdplog.Enable, cdp.Empty{})
	}
	if err != nil {
		return fmt.Errorf("follow the browser: %w", err)
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c command
		if err := in.Decode(&c); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(b.answer(&c)); err != nil {
			return err
		}
	}
}

type browser struct {
	ctx context.Context

	mu          sync.Mutex
	host        string // of the page
	log, abroad []string
}

// hear notes errors of pages, and requests to other hosts.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		b.log = append(b.log, text)
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError {
			b.log = append(b.log, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, b.host+"/") {
			b.abroad = append(b.abroad, url)
		}
	}
}

func (b *browser) answer(c *command) (a answer) {
	if c.Do == "open" {
		b.mu.Lock()
		b.host = strings.Join(strings.SplitN(c.URL, "/", 4)[:3], "/")
		b.mu.Unlock()
	}
	err := b.do(c, &a)
	if err != nil {
		a.Error = err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.Log, a.Abroad, b.log, b.abroad = b.log, b.abroad, nil, nil
	return a
}

func (b *browser) do(c *command, a *answer) error {
	ctx, cancel := context.WithTimeout(b.ctx, 2*awaitWithin)
	defer cancel()
	switch c.Do {
	case "open":
		return chromedp.Do(ctx, chromedp.Navigate(c.URL))
	case "eval":
		return evaluate(ctx, c.Script, a)
	case "await":
		return b.await(ctx, c.Script)
	case "keys":
		return chromedp.Do(ctx, chromedp.KeyEvent(c.Keys))
	case "view":
		scheme := "light"
		if c.Dark {
			scheme = "dark"
		}
		_, size := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: c.Width, Height: c.Height, DeviceScaleFactor: 1, Mobile: c.Width < 600})
		_, media := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		_, scripts := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: c.NoScripts})
		return errors.Join(size, media, scripts)
	case "shot":
		picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err != nil {
			return err
		}
		return os.WriteFile(c.Path, picture, 0o600)
	case "axe":
		script, err := os.ReadFile(c.Path)
		if err != nil {
			return err
		}
		if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](string(script))); err != nil {
			return err
		}
		return evaluate(ctx, findings, a)
	default:
		return fmt.Errorf("unknown command %q", c.Do)
	}
}

// findings is a script that returns what axe finds on a page.
const findings = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v =>
	v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join(" ")))`

// evaluate evaluates a script, and waits for the promise if it returns one.
func evaluate(ctx context.Context, script string, a *answer) error {
	value, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](script, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	a.Value = value
	return err
}

func (b *browser) await(ctx context.Context, script string) error {
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
