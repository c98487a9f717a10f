package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Door decides who looks.
type Door interface {
	// admit returns who has sent a request, and nil if that is not known.
	admit(r *http.Request) *visitor
	// knows reports whether a request names one of hosts, or any that leads here.
	knows(host string) bool
	// forget drops what is known about a visitor.
	forget(key string)
}

// visitor is who has sent a request.
type visitor struct {
	key    string          // of the viewer
	config *rest.Config    // with the rights of the viewer, and no others
	form   string          // a token that forms of this visitor have
	left   <-chan struct{} // closed when the visitor signs out; nil for one who has not signed in
}

// Loopback is the door for the user of this machine. Who has the secret of the link has the rights of the kubeconfig.
type Loopback struct {
	config  *rest.Config
	address string // "127.0.0.1:8080"
	cookie  string // its name, which has the port: cookies of a host are the same for all ports
	secret  string // of the link
	session string // of the cookie
}

// NewLoopback returns the door of a console that listens at a loopback address.
func NewLoopback(config *rest.Config, address string) *Loopback {
	port := address[strings.LastIndex(address, ":")+1:]
	return &Loopback{config: config, address: address, cookie: "cleat-console-" + port, secret: newSecret(),
		session: newSecret()}
}

// Link returns the address with the secret.
func (d *Loopback) Link() string { return "http://" + d.address + "/?session=" + d.secret }

func (d *Loopback) admit(r *http.Request) *visitor {
	cookie, err := r.Cookie(d.cookie)
	if err != nil || !same(cookie.Value, d.session) {
		return nil
	}
	return &visitor{key: "user", config: d.config, form: formToken(d.session)}
}

func (d *Loopback) knows(host string) bool { return host == d.address }

func (d *Loopback) forget(string) {}

// open exchanges the secret of the link for a cookie. It returns false if the request has another secret.
func (d *Loopback) open(w http.ResponseWriter, r *http.Request) bool {
	if !same(r.URL.Query().Get("session"), d.secret) {
		return false
	}
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.session, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode}) // not Secure: it stays on this machine
	return true
}

// Cluster is the door of a console in a cluster. Each request has the rights of its bearer token, which a proxy in
// front adds or a form has asked for. The console has no rights of its own.
type Cluster struct {
	config *rest.Config // address and certificates of the API server alone
	hosts  []string     // that requests may name; empty for all

	mu       sync.Mutex
	sessions map[string]*session // by the hash of the cookie
}

// session is the token of somebody who has signed in. It is in memory alone.
type session struct {
	token string
	used  time.Time
	left  chan struct{} // closed at its end
}

const (
	signInCookie = "__Host-cleat-console"
	mostSessions = 10_000
)

// NewCluster returns the door of a console in a cluster. Credentials of config are not used.
func NewCluster(config *rest.Config, hosts ...string) *Cluster {
	return &Cluster{config: rest.AnonymousClientConfig(config), hosts: hosts, sessions: map[string]*session{}}
}

func (d *Cluster) admit(r *http.Request) *visitor {
	if token := bearer(r); token != "" {
		return &visitor{key: hash(token), config: d.with(token), form: formToken(token)}
	}
	cookie, err := r.Cookie(signInCookie)
	if err != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.sessions[hash(cookie.Value)]
	if known == nil {
		return nil
	}
	known.used = time.Now()
	return &visitor{key: hash(known.token), config: d.with(known.token), form: formToken(cookie.Value), left: known.left}
}

func (d *Cluster) with(token string) *rest.Config {
	config := rest.CopyConfig(d.config)
	config.BearerToken = token
	return config
}

func (d *Cluster) knows(host string) bool {
	for _, known := range d.hosts {
		if strings.EqualFold(host, known) {
			return true
		}
	}
	return len(d.hosts) == 0
}

// signIn begins a session with a token that the API server has accepted.
func (d *Cluster) signIn(w http.ResponseWriter, token string) {
	id := newSecret()
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, known := range d.sessions {
		if time.Since(known.used) > viewerIdle || len(d.sessions) >= mostSessions {
			d.end(key)
		}
	}
	d.sessions[hash(id)] = &session{token: token, used: time.Now(), left: make(chan struct{})}
	http.SetCookie(w, &http.Cookie{Name: signInCookie, Value: id, Path: "/", HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
}

// end ends a session, if there is one. The mutex is held.
func (d *Cluster) end(key string) {
	if known := d.sessions[key]; known != nil {
		close(known.left)
		delete(d.sessions, key)
	}
}

// signOut ends the session of a request.
func (d *Cluster) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(signInCookie); err == nil {
		d.mu.Lock()
		d.end(hash(cookie.Value))
		d.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: signInCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
}

// forget drops the sessions of a viewer.
func (d *Cluster) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, known := range d.sessions {
		if hash(known.token) == key {
			d.end(id)
		}
	}
}

// signedIn reports whether a viewer has a session.
func (d *Cluster) signedIn(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.sessions {
		if hash(known.token) == key {
			return true
		}
	}
	return false
}

// bearer returns the token of a request, "" if it has none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return cleanToken(token)
}

// cleanToken returns a bearer token without spaces around it, and "" for what cannot be one.
func cleanToken(text string) string {
	text = strings.TrimSpace(text)
	const most = 16 << 10
	if len(text) > most || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return text
}

func newSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// same compares secrets, in a time that says nothing about them.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// formToken returns what forms of a session have.
func formToken(session string) string {
	sum := hmac.New(sha256.New, []byte(session))
	sum.Write([]byte("form"))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}
