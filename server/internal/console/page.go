package console

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Page is a page of the console: a document, and the template of the part of the page that shows it. Whoever asks for
// JSON gets the document, whoever asks for server-sent events the part again after each change.
type Page struct {
	Path     string // a pattern of http.ServeMux without a method: "/backups/{name}"
	Nav      string // its text in the navigation; "" if it is not in it
	Title    string // {name} stands for a part of the path
	Template string // the file in Options.Templates that defines "page"
	// Document returns what the page shows to a viewer. Of an error, people see the text.
	Document func(ctx context.Context, l *Look) (any, error)
	// Act does what a form of the page asks for, and returns the path to go on with; nil if the page has no form. What
	// it does needs the rights of the viewer, like everything else.
	Act func(ctx context.Context, l *Look) (next string, err error)
	// Still is whether the page stays as it was loaded.
	Still bool
}

// Look is one look of a viewer at a page.
type Look struct {
	*Viewer
	Request *http.Request
	Now     time.Time

	sources []source      // what the page was made of
	again   time.Duration // after which an open page is made again; 0 for the usual time
	stays   bool          // the page does not change any more
}

// Again has an open page made again after a time, for what no feed tells.
func (l *Look) Again(after time.Duration) { l.again = after }

// Stay has an open page stay as it is now.
func (l *Look) Stay() { l.stays = true }

// made notes that the page was made of s.
func (l *Look) made(s source) { l.sources = append(l.sources, s) }

// Value returns a parameter of the request.
func (l *Look) Value(name string) string { return l.Request.FormValue(name) }

// Missing is an error about something that does not exist.
type Missing struct{ Text string }

func (m Missing) Error() string { return m.Text }

// Wrong is an error about a request that cannot be right.
type Wrong struct{ Text string }

func (e Wrong) Error() string { return e.Text }

// view is what templates get.
type view struct {
	Title     string
	Here      string // path and query of the page
	Nav       []link
	Viewer    *Viewer // nil before somebody has signed in
	Version   string
	Token     string // of forms
	Tab, Next string // a token for the tab to keep, and where it goes on
	Doc       any
	Failure   string // instead of the page
	SignIn    string // where somebody can sign in; "" if the page needs no sign-in
	SignOut   bool   // somebody has signed in with a form
	Live      bool   // the page is kept current
	NoScripts bool   // the scripts were not built in
	Now       time.Time
	Values    url.Values // of the request
}

// link is an entry of the navigation.
type link struct {
	Path, Text string
	Current    bool
}

// pages has the templates of all pages.
type pages struct {
	all     []Page
	parsed  map[string]*template.Template // by path
	message *template.Template            // a page that only says something
	signIn  *template.Template
	enter   *template.Template
}

func newPages(all []Page, files fs.FS, functions template.FuncMap) (*pages, error) {
	p := &pages{all: all, parsed: map[string]*template.Template{}}
	frame, err := template.New("frame").Funcs(frameFunctions).Funcs(functions).ParseFS(frameFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the templates of the frame: %w", err)
	}
	shared, err := fs.Glob(files, "shared*.html")
	if err != nil {
		return nil, err
	}
	if len(shared) > 0 {
		if frame, err = frame.ParseFS(files, shared...); err != nil {
			return nil, fmt.Errorf("parse the shared templates: %w", err)
		}
	}
	for _, page := range all {
		own, err := frame.Clone()
		if err == nil {
			own, err = own.ParseFS(files, page.Template)
		}
		if err != nil {
			return nil, fmt.Errorf("parse the template of %s: %w", page.Path, err)
		}
		p.parsed[page.Path] = own
	}
	for name, into := range map[string]**template.Template{"message": &p.message, "sign-in": &p.signIn,
		"enter": &p.enter} {
		own, err := frame.Clone()
		if err == nil {
			own, err = own.New("page").Parse(`{{template "` + name + `" .}}`)
		}
		if err != nil {
			return nil, fmt.Errorf("parse the template %s: %w", name, err)
		}
		*into = own
	}
	return p, nil
}

// nav returns the navigation of a page with the given path.
func (p *pages) nav(path string) []link {
	var links []link
	for _, page := range p.all {
		if page.Nav == "" {
			continue
		}
		within := page.Path == path || page.Path != "/{$}" && strings.HasPrefix(path, page.Path+"/")
		links = append(links, link{Path: strings.TrimSuffix(page.Path, "{$}"), Text: page.Nav, Current: within})
	}
	return links
}

// titleOf returns the title of a page with the parts of the path of a request.
func titleOf(page *Page, r *http.Request) string {
	title := page.Title
	for _, part := range strings.Split(page.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			title = strings.ReplaceAll(title, "{"+name+"}", r.PathValue(strings.TrimSuffix(name, "...")))
		}
	}
	return title
}

// render executes a template of a page to memory, so that a failure leaves no half a page.
func render(t *template.Template, name string, v *view) ([]byte, error) {
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, v); err != nil {
		return nil, fmt.Errorf("render %s: %w", v.Here, err)
	}
	return out.Bytes(), nil
}
