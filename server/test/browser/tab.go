package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab of the browser, with what it has logged and asked for.
type tab struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu          sync.Mutex
	host        string // of the page
	log, abroad []string
}

// begin opens the tab. It has the focus, as if it were the only one.
func (t *tab) begin() error {
	err := chromedp.Do(t.ctx)
	if err == nil {
		_, err = chromedp.Call(t.ctx, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(t.ctx, cdplog.Enable, cdp.Empty{})
	}
	if err == nil {
		_, err = chromedp.Call(t.ctx, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: true})
	}
	if err == nil {
		_, err = chromedp.Call(t.ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: feeds})
	}
	return err
}

// visit notes the host of the page that is opened next.
func (t *tab) visit(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.host = host
}

// hear notes errors of the page, and requests to other hosts.
func (t *tab) hear(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		t.log = append(t.log, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			t.log = append(t.log, "console.error "+textOf(e.Args))
		}
	case *cdplog.EventEntryAdded: // reports of the content security policy are among them
		if e.Entry.Level == cdplog.EntryLevelError {
			t.log = append(t.log, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, t.host+"/") {
			t.abroad = append(t.abroad, url)
		}
	}
}

// textOf returns the arguments of a call as JSON.
func textOf(args []*runtime.RemoteObject) string {
	text, _ := json.Marshal(args) // for a message alone
	return string(text)
}

// heard returns what was noted since the last call.
func (t *tab) heard() (log, abroad []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	log, abroad, t.log, t.abroad = t.log, t.abroad, nil, nil
	return log, abroad
}
