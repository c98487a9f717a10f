package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Options describe a console.
type Options struct {
	Door      Door
	Namespace string // of the server
	Scheme    *runtime.Scheme
	Pages     []Page
	Templates fs.FS            // of the pages, and shared*.html for all of them
	Functions template.FuncMap // for the templates
	Styles    string           // a style sheet for the pages
	Version   string
	// Recheck is how often the API server is asked whether the viewer of an open page may still see it.
	Recheck time.Duration
	Log     *slog.Logger
}

// Server serves the console.
type Server struct {
	Options
	pages   *pages
	assets  *assets
	viewers *viewers
	handler http.Handler
}

// New returns a console. It follows objects until ctx ends.
func New(ctx context.Context, o Options) (*Server, error) {
	files, err := newAssets(o.Styles)
	if err != nil {
		return nil, err
	}
	functions := template.FuncMap{"asset": files.path}
	for name, function := range o.Functions {
		functions[name] = function
	}
	pages, err := newPages(o.Pages, o.Templates, functions)
	if err != nil {
		return nil, err
	}
	s := &Server{Options: o, pages: pages, assets: files, viewers: &viewers{
		namespace: o.Namespace, scheme: o.Scheme, mapper: newMapper(o.Scheme), recheck: o.Recheck, gone: o.Door.forget,
		asked: make(chan struct{}, mostAsked),
	}}
	mux := http.NewServeMux()
	mux.Handle("/assets/", files)
	for i := range o.Pages {
		page := &o.Pages[i]
		mux.HandleFunc(page.Path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, page) })
	}
	if door, ok := o.Door.(*Cluster); ok {
		mux.HandleFunc("/sign-in", func(w http.ResponseWriter, r *http.Request) { s.signIn(w, r, door) })
		mux.HandleFunc("POST /sign-out", func(w http.ResponseWriter, r *http.Request) { s.signOut(w, r, door) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, nil, Missing{"there is no page " + r.URL.Path})
	})
	s.handler = guard(o.Door, s.recover(compress(mux)))
	go s.viewers.run(ctx)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// a kubelet asks by the address of the pod
	if _, inCluster := s.Door.(*Cluster); inCluster && r.URL.Path == "/healthz" {
		_, _ = w.Write([]byte("ok"))
		return
	}
	s.handler.ServeHTTP(w, r)
}

// recover answers a request whose page has panicked.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			failed := recover()
			if failed == nil {
				return
			}
			if err, ok := failed.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(failed)
			}
			s.Log.Error("a page has panicked", "path", r.URL.Path, "panic", failed)
			http.Error(w, "this page has failed; the console goes on", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

// serve answers a request for a page: it finds out who looks, and shows the page to them.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, page *Page) {
	if door, ok := s.Door.(*Loopback); ok && r.URL.Query().Has("session") {
		query := r.URL.Query()
		query.Del("session")
		next := local(r.URL.Path + "?" + query.Encode())
		tab, opened := door.open(w, r)
		switch {
		case opened:
			s.enter(w, r, tab, next)
		case door.admit(r) != nil && r.Method == http.MethodGet: // the tab was loaded again
			http.Redirect(w, r, next, http.StatusSeeOther)
		default:
			s.fail(w, r, nil, errLink)
		}
		return
	}
	who := s.Door.admit(r)
	if who == nil {
		s.fail(w, r, nil, errUnknown)
		return
	}
	viewer, err := s.viewers.get(r.Context(), who)
	if err != nil {
		if isRefused(err) {
			s.Door.forget(who.key)
			err = errSignedOut
		}
		s.fail(w, r, nil, err)
		return
	}
	look := &Look{Viewer: viewer, Request: r, Now: time.Now()}
	switch {
	case r.Method == http.MethodPost:
		s.act(w, look, page, who)
	case accepts(r, "text/event-stream"):
		s.live(w, look, page, who)
	default:
		s.show(w, look, page, who)
	}
}

// enter has a tab keep its token, and go on. A page of the console leads on, because browsers do not send the cookie
// with a redirection of a link that was opened elsewhere.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, tab, next string) {
	v := s.view(r, nil, nil, nil)
	v.Title, v.Tab, v.Next = "Console", tab, next
	s.write(w, http.StatusOK, s.pages.enter, v)
}

// show answers with the page as it is now.
func (s *Server) show(w http.ResponseWriter, l *Look, page *Page, who *visitor) {
	doc, err := page.Document(l.Request.Context(), l)
	if err != nil {
		s.fail(w, l.Request, l.Viewer, err)
		return
	}
	if accepts(l.Request, "application/json") {
		writeJSON(w, http.StatusOK, doc)
		return
	}
	v := s.view(l.Request, page, l.Viewer, who)
	v.Doc, v.Live = doc, v.Live && !l.stays
	s.write(w, http.StatusOK, s.pages.parsed[page.Path], v)
}

// act does what a form asks for.
func (s *Server) act(w http.ResponseWriter, l *Look, page *Page, who *visitor) {
	if page.Act == nil {
		s.fail(w, l.Request, l.Viewer, Wrong{"this page has no form"})
		return
	}
	if !same(l.Request.PostFormValue("token"), who.form) {
		s.fail(w, l.Request, l.Viewer, Refusal{"this form is not of a page that you have open now: load it again"})
		return
	}
	if who.tab != "" && !same(l.Request.PostFormValue("tab"), who.tab) {
		s.fail(w, l.Request, l.Viewer, Refusal{"this tab shows pages alone: forms need scripts, and a tab in which " +
			"somebody has " + s.entrance() + ", or another one beside it"})
		return
	}
	next, err := page.Act(l.Request.Context(), l)
	if err != nil {
		s.fail(w, l.Request, l.Viewer, err)
		return
	}
	http.Redirect(w, l.Request, local(next), http.StatusSeeOther)
}

// view returns what the templates of a page get, without its document.
func (s *Server) view(r *http.Request, page *Page, viewer *Viewer, who *visitor) *view {
	v := &view{Title: "Not found", Here: r.URL.RequestURI(), Viewer: viewer, Version: s.Version, Now: time.Now(),
		NoScripts: !s.assets.complete, Values: r.URL.Query()}
	if page != nil {
		v.Title, v.Nav, v.Live = titleOf(page, r), s.pages.nav(page.Path), !page.Still && s.assets.complete
	} else if viewer != nil {
		v.Nav = s.pages.nav("")
	}
	if who != nil {
		v.Token = who.form
	}
	if _, ok := s.Door.(*Cluster); ok && viewer != nil {
		v.SignOut = bearer(r) == ""
	}
	return v
}

func (s *Server) write(w http.ResponseWriter, code int, t *template.Template, v *view) {
	text, err := render(t, "frame", v)
	if err != nil {
		s.Log.Error("a page cannot be rendered", "error", err)
		http.Error(w, "this page cannot be shown; the log of the console says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

// entrance says how somebody is let in.
func (s *Server) entrance() string {
	if _, inCluster := s.Door.(*Cluster); inCluster {
		return "signed in"
	}
	return "opened a link of \"cleat console\", which prints one when you press enter"
}

const another = "press enter where \"cleat console\" runs, and open the link that it prints"

var (
	errLink = Refusal{"this link was opened before, or is older than a minute: " + another + "; if it was not you who " +
		"has opened it, end the console"}
	errUnknown = errors.New("the console does not know you: " + another)
)

// fail answers with an error in words.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, viewer *Viewer, err error) {
	code, text := explain(err)
	_, inCluster := s.Door.(*Cluster)
	if inCluster && errors.Is(err, errUnknown) {
		text = "sign in with a token, or send one in the header Authorization"
	}
	if r.Context().Err() != nil {
		return
	}
	if accepts(r, "application/json") || accepts(r, "text/event-stream") {
		writeJSON(w, code, map[string]any{"apiVersion": "cleat.dev/v1", "kind": "Problem", "problem": text})
		return
	}
	v := s.view(r, nil, viewer, nil)
	v.Failure, v.Title = text, http.StatusText(code)
	if inCluster && code == http.StatusUnauthorized {
		if r.Method == http.MethodGet {
			v.SignIn = "/sign-in?next=" + template.URLQueryEscaper(local(r.URL.RequestURI()))
		} else {
			v.SignIn = "/sign-in"
		}
	}
	s.write(w, code, s.pages.message, v)
}

// explain returns the status and the text of an error.
func explain(err error) (code int, text string) {
	text = layout.OneLine(err.Error())
	switch {
	case errors.Is(err, errUnknown), errors.Is(err, errSignedOut), apierrors.IsUnauthorized(err):
		return http.StatusUnauthorized, text
	case errors.As(err, new(Refusal)), apierrors.IsForbidden(err):
		return http.StatusForbidden, text
	case errors.As(err, new(Missing)), apierrors.IsNotFound(err):
		return http.StatusNotFound, text
	case errors.As(err, new(Wrong)), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return http.StatusBadRequest, text
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return http.StatusConflict, text
	default:
		return http.StatusBadGateway, text
	}
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		http.Error(w, "the document cannot be encoded: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes())
}

// accepts reports whether a request prefers a type: it is the first one that the request names.
func accepts(r *http.Request, kind string) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	parsed, _, err := mime.ParseMediaType(strings.TrimSpace(first))
	return err == nil && parsed == kind
}
