package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"html/template"
	"net/http"
	"time"
)

const (
	// gather is how long changes are gathered before an open page is made again.
	gather = 250 * time.Millisecond
	// tick is how often an open page is made again without a change, because ages and times left pass.
	tick = 30 * time.Second
	// forever is longer than anybody looks.
	forever = 1000 * time.Hour
	// writeWithin is the longest time for sending a part of a page.
	writeWithin = 30 * time.Second
)

// live sends the main part of a page, and again whenever it has become another one. The last event of a page whose
// viewer is not accepted any more says so.
func (s *Server) live(w http.ResponseWriter, l *Look, page *Page, who *visitor) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies
	defer l.keep()()
	woken := make(chan struct{}, 1)
	heard := map[source]func(){}
	defer func() {
		for _, stop := range heard {
			stop()
		}
	}()
	var sent [sha256.Size]byte
	for {
		now := &Look{Viewer: l.Viewer, Request: l.Request, Now: time.Now()}
		text := s.part(now, page, who)
		if l.Request.Context().Err() != nil {
			return
		}
		ended := l.ctx.Err() != nil
		if ended {
			text = s.farewell(l, page, who)
		}
		if sum := sha256.Sum256(text); sum != sent {
			sent = sum
			if err := sendEvent(w, "page", text); err != nil {
				return
			}
		}
		if ended {
			return
		}
		most := cmp.Or(now.again, tick)
		if now.stays {
			now.sources, most = nil, forever
		}
		hear(heard, now.sources, woken)
		if !pause(l.Request.Context(), l.ctx, woken, most) {
			return
		}
	}
}

// hear listens to sources, and no longer to those that the page is not made of any more.
func hear(heard map[source]func(), sources []source, woken chan<- struct{}) {
	current := map[source]bool{}
	for _, s := range sources {
		current[s] = true
		if heard[s] == nil {
			heard[s] = s.listen(woken)
		}
	}
	for s, stop := range heard {
		if !current[s] {
			stop()
			delete(heard, s)
		}
	}
}

// pause waits for a change, the end of a time, or that of the viewer. It returns false if the page was closed.
func pause(request, viewer context.Context, woken <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-request.Done():
		return false
	case <-viewer.Done():
		return true
	case <-timer.C:
		return true
	case <-woken:
	}
	select {
	case <-request.Done():
		return false
	case <-time.After(gather):
		return true
	}
}

// part renders the main part of a page as it is now, or why it cannot be shown.
func (s *Server) part(l *Look, page *Page, who *visitor) []byte {
	v := s.view(l.Request, page, l.Viewer, who)
	doc, err := page.Document(l.Request.Context(), l)
	if err == nil {
		v.Doc = doc
		text, failed := render(s.pages.parsed[page.Path], "page", v)
		if failed == nil {
			return text
		}
		s.Log.Error("a page cannot be rendered", "error", failed)
		err = errors.New("this page cannot be shown; the log of the console says why")
	}
	_, v.Failure = explain(err)
	text, _ := render(s.pages.message, "page", v) // a message can always be rendered
	return text
}

// farewell renders what an open page becomes when its viewer is not accepted any more.
func (s *Server) farewell(l *Look, page *Page, who *visitor) []byte {
	v := s.view(l.Request, page, nil, who)
	v.Failure = errSignedOut.Error()
	if _, ok := s.Door.(*Cluster); ok {
		v.SignIn = "/sign-in?next=" + template.URLQueryEscaper(local(l.Request.URL.RequestURI()))
	}
	text, _ := render(s.pages.message, "page", v) // a message can always be rendered
	return text
}

// sendEvent sends a server-sent event.
func sendEvent(w http.ResponseWriter, name string, text []byte) error {
	var out bytes.Buffer
	out.WriteString("event: " + name + "\n")
	for line := range bytes.Lines(text) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\r\n"))
		out.WriteString("\n")
	}
	out.WriteString("\n")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeWithin)) // a writer without deadlines has none
	if _, err := w.Write(out.Bytes()); err != nil {
		return err
	}
	if err := control.Flush(); err != nil {
		return err
	}
	_ = control.SetWriteDeadline(time.Time{}) // one that passes ends a stream of HTTP/2
	return nil
}
