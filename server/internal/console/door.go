package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net"
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
	tab    string          // a token that tabs add to forms; "" for a visitor without a cookie of the console
	left   <-chan struct{} // closed when the visitor signs out; nil for one who has not signed in
	// trusted is whether config is known to be that of somebody who may look, even if the API server cannot be asked.
	trusted bool
}

// linkWithin is how long a link opens a console.
const linkWithin = time.Minute

// Loopback is the door for the user of this machine. Who opens a link of it has the rights of the kubeconfig.
type Loopback struct {
	config  *rest.Config
	host    string // with its port
	cookie  string // its name, which has the port: cookies of a host are the same for all ports
	session string // of the cookie
	tab     string // of the tabs that have opened a link

	mu    sync.Mutex
	links map[string]chan struct{} // by the hash of the secret; closed when the link has been opened or is too old
}

// NewLoopback returns the door of a console that listens at a port of the loopback addresses. Browsers send the cookies
// of a host to all of its ports, so the host is one that nobody else knows unless name is one.
func NewLoopback(config *rest.Config, port, name string) *Loopback {
	if name == "" {
		name = newName()
	}
	return &Loopback{config: config, host: net.JoinHostPort(strings.ToLower(name), port), cookie: "cleat-console-" + port,
		session: newSecret(), tab: newSecret(), links: map[string]chan struct{}{}}
}

// newName returns the name of a host that leads to this machine, in browsers.
func newName() string { return hash(newSecret())[:32] + ".localhost" }

// Link returns an address that opens the console once, within linkWithin. spent is closed after that.
func (d *Loopback) Link() (link string, spent <-chan struct{}) {
	secret, ended := newSecret(), make(chan struct{})
	d.mu.Lock()
	d.links[hash(secret)] = ended
	d.mu.Unlock()
	time.AfterFunc(linkWithin, func() { d.spend(secret) })
	return "http://" + d.host + "/?session=" + secret, ended
}

// spend reports whether a secret is that of a link, which it ends.
func (d *Loopback) spend(secret string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended := d.links[hash(secret)]
	if ended == nil {
		return false
	}
	close(ended)
	delete(d.links, hash(secret))
	return true
}

func (d *Loopback) admit(r *http.Request) *visitor {
	cookie, err := r.Cookie(d.cookie)
	if err != nil || !same(cookie.Value, d.session) {
		return nil
	}
	return &visitor{key: "user", config: d.config, trusted: true, form: formToken(d.session), tab: d.tab}
}

func (d *Loopback) knows(host string) bool { return host == d.host }

func (d *Loopback) forget(string) {}

// open exchanges the secret of a link for a cookie, and returns the token of the tab. It returns false if the secret is
// not that of a link that can be opened.
func (d *Loopback) open(w http.ResponseWriter, r *http.Request) (tab string, ok bool) {
	if r.Method != http.MethodGet || !d.spend(r.URL.Query().Get("session")) {
		return "", false
	}
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.session, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode}) // not Secure: it stays on this machine
	return d.tab, true
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
	tab   string // of the tabs that have signed in
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
	return &visitor{key: hash(known.token), config: d.with(known.token), form: formToken(cookie.Value), tab: known.tab,
		left: known.left}
}

func (d *Cluster) with(token string) *rest.Config {
	config := rest.CopyConfig(d.config)
	config.BearerToken = token
	return config
}

func (d *Cluster) knows(host string) bool {
	name, port := splitHost(host)
	if strings.HasSuffix(name, ".localhost") && d.knows(joinHost("localhost", port)) {
		return true // see ownHost
	}
	for _, known := range d.hosts {
		if strings.EqualFold(host, known) {
			return true
		}
	}
	return len(d.hosts) == 0
}

// ownHost returns the host at which somebody signs in who has asked for a host of this machine without TLS, as "kubectl
// port-forward" offers it: other users of the machine have other ports of that host, and would get its cookies. It
// returns "" for another host.
func (d *Cluster) ownHost(r *http.Request) string {
	name, port := splitHost(r.Host)
	local := strings.EqualFold(name, "localhost") || net.ParseIP(strings.Trim(name, "[]")).IsLoopback()
	if own := joinHost(newName(), port); local && r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "https" &&
		d.knows(own) {
		return own
	}
	return ""
}

// splitHost splits the host of a request into its name and its port, "" if there is none.
func splitHost(host string) (name, port string) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host, ""
	}
	return name, port
}

func joinHost(name, port string) string {
	if port == "" {
		return name
	}
	return net.JoinHostPort(name, port)
}

// signIn begins a session with a token that the API server has accepted, and returns the token of the tab.
func (d *Cluster) signIn(w http.ResponseWriter, token string) (tab string) {
	id, tab := newSecret(), newSecret()
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, known := range d.sessions {
		if time.Since(known.used) > viewerIdle || len(d.sessions) >= mostSessions {
			d.end(key)
		}
	}
	d.sessions[hash(id)] = &session{token: token, tab: tab, used: time.Now(), left: make(chan struct{})}
	http.SetCookie(w, &http.Cookie{Name: signInCookie, Value: id, Path: "/", HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
	return tab
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
