package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"html/template"
	"net/http"
	"strings"
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

// live sends the main part of a page, and again whenever it has become another one. If the viewer has signed out or is
// not accepted any more, the page says so. An event "end" follows for one who has to sign in again; the browsers of
// others try again, perhaps with another token of a proxy.
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
		text, ended := s.present(now, page, who)
		if l.Request.Context().Err() != nil {
			return
		}
		if sum := sha256.Sum256(text); sum != sent {
			sent = sum
			if err := sendEvent(w, "page", text); err != nil {
				return
			}
		}
		if ended != nil {
			if who.left != nil {
				_ = sendEvent(w, "end", []byte(ended.Error())) // a browser ignores an event without data
			}
			return
		}
		most := cmp.Or(now.again, tick)
		if now.stays {
			now.sources, most = nil, forever
		}
		hear(heard, now.sources, woken)
		if !pause(l, who, woken, most) {
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

// present renders the main part of an open page as it is now, and returns why the page ends, nil if it does not.
func (s *Server) present(l *Look, page *Page, who *visitor) (text []byte, ended error) {
	if ended = s.endOf(l); ended == nil {
		text = s.part(l, page, who)
		ended = s.endOf(l) // making the part may have shown it
	}
	if ended != nil {
		text = s.farewell(l, page, who, ended)
	}
	return text, ended
}

// endOf returns why an open page ends, nil if it does not.
func (s *Server) endOf(l *Look) error {
	switch {
	case l.ctx.Err() != nil:
		return errSignedOut
	case s.Door.admit(l.Request) == nil:
		return errLeft
	default:
		return nil
	}
}

// pause waits for a change, the end of a time, or that of the viewer. It returns false if the page was closed.
func pause(l *Look, who *visitor, woken <-chan struct{}, most time.Duration) bool {
	closed := l.Request.Context().Done()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-closed:
		return false
	case <-l.ctx.Done():
		return true
	case <-who.left:
		return true
	case <-timer.C:
		return true
	case <-woken:
	}
	select {
	case <-closed:
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

// errLeft means that the viewer has signed out.
var errLeft = errors.New("you have signed out: sign in again")

// farewell renders what an open page becomes at its end.
func (s *Server) farewell(l *Look, page *Page, who *visitor, ended error) []byte {
	v := s.view(l.Request, page, nil, who)
	v.Failure = ended.Error()
	if _, ok := s.Door.(*Cluster); ok {
		v.SignIn = "/sign-in?next=" + template.URLQueryEscaper(local(l.Request.URL.RequestURI()))
	}
	text, _ := render(s.pages.message, "page", v) // a message can always be rendered
	return text
}

// lineEnds are those that end a line of a server-sent event. Each is one line end of HTML too.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// sendEvent sends a server-sent event.
func sendEvent(w http.ResponseWriter, name string, text []byte) error {
	var out bytes.Buffer
	out.WriteString("event: " + name + "\n")
	for line := range strings.Lines(lineEnds.Replace(string(text))) {
		out.WriteString("data: " + strings.TrimSuffix(line, "\n") + "\n")
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
