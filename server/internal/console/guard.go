package console

import (
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// policy forbids whatever a page does not need: scripts and styles in it, and everything from elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// mostForm is the longest form that is read, in bytes.
const mostForm = 1 << 20

// guard refuses requests that a page of another site has sent, or that a name of another site has led here.
func guard(door Door, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms have no origin
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept, Cookie, Authorization, Accept-Encoding")
		if text := refuse(door, r); text != "" {
			http.Error(w, text, http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		next.ServeHTTP(w, r)
	})
}

// refuse returns why a request is refused before anybody looks at who has sent it; "" if it is not.
func refuse(door Door, r *http.Request) string {
	if !door.knows(r.Host) {
		return "this console is not at " + strings.ToValidUTF8(r.Host, "?") + ": open it at its own address"
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !read && r.Method != http.MethodPost {
		return "the console knows no " + r.Method
	}
	site := r.Header.Get("Sec-Fetch-Site")
	visits := read && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	if site != "" && site != "same-origin" && site != "none" && !visits {
		return "this request is of a page of another site"
	}
	if origin := r.Header.Get("Origin"); origin != "" || !read {
		parsed, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(parsed.Host, r.Host) || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return "this request is of a page of another site: its origin is " + strings.ToValidUTF8(origin, "?")
		}
	}
	if !read {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/x-www-form-urlencoded" {
			return "the console reads forms alone"
		}
	}
	return ""
}

// local returns the path and query of a link of the console, and "/" for one that leads elsewhere.
func local(link string) string {
	parsed, err := url.Parse(link)
	if err != nil || parsed.Scheme != "" || parsed.Host != "" || parsed.User != nil {
		return "/"
	}
	if !strings.HasPrefix(parsed.Path, "/") || strings.HasPrefix(parsed.Path, "//") ||
		strings.ContainsAny(parsed.Path, "\\\x00\r\n\t") {
		return "/"
	}
	return (&url.URL{Path: parsed.Path, RawQuery: parsed.RawQuery}).RequestURI()
}
