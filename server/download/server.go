package download

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/store"
)

// Server serves the files for whose DownloadRequests Address has made a URL. It reads the request from the API server, so
// any replica can answer, also one that does not lead.
type Server struct {
	Client    client.Reader // reads from the API server
	Namespace string        // of the DownloadRequests
	// Open opens a file as it is stored. The error wraps store.ErrNotFound if there is none.
	Open func(ctx context.Context, file store.File) (io.ReadCloser, error)
	Log  hclog.Logger
	Now  func() time.Time
}

// ServeHTTP implements http.Handler. The name of the request is the last element of the path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	_, name, found := strings.Cut(r.URL.Path, directory)
	if !found || name == "" || strings.Contains(name, "/") {
		http.NotFound(w, r)
		return
	}
	var request velerov1.DownloadRequest
	err := s.Client.Get(r.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, &request)
	switch {
	case client.IgnoreNotFound(err) != nil:
		s.Log.Warn("cannot read a download request", "request", name, "error", err)
		http.Error(w, "the API server does not answer, try again", http.StatusServiceUnavailable)
		return
	case err != nil || !s.permits(&request, r.URL.Query().Get("token")):
		http.Error(w, "the link is wrong or has expired, ask for a new one", http.StatusForbidden)
		return
	}
	s.send(w, r, FileOf(&request))
}

// permits reports whether the URL of a request has the token and is valid now.
func (s *Server) permits(request *velerov1.DownloadRequest, token string) bool {
	if request.Status.Phase != velerov1.DownloadRequestPhaseProcessed || request.Status.Expiration == nil || !s.Now().Before(request.Status.Expiration.Time) {
		return false
	}
	issued, err := url.Parse(request.Status.DownloadURL)
	if err != nil {
		return false
	}
	want := issued.Query().Get("token")
	return want != "" && strings.Contains(issued.Path, directory) && subtle.ConstantTimeCompare([]byte(want), []byte(token)) == 1
}

const (
	// openLimit is how long it may take until a file begins to be sent.
	openLimit = 10 * time.Minute
	// writeLimit is how long a client may take to read a part of a file, of 32 KiB.
	writeLimit = time.Minute
)

// steadily writes a file of any size to a client that keeps reading. One that does not loses its connection.
type steadily struct {
	http.ResponseWriter
	connection *http.ResponseController
}

// Write implements io.Writer.
func (s steadily) Write(part []byte) (int, error) {
	s.within(writeLimit)
	return s.ResponseWriter.Write(part)
}

// within sets the time until which the connection accepts what is written.
func (s steadily) within(limit time.Duration) {
	_ = s.connection.SetWriteDeadline(time.Now().Add(limit)) // which a connection of HTTP supports
}

// send streams the file as it is stored, compressed.
func (s *Server) send(w http.ResponseWriter, r *http.Request, file store.File) {
	out := steadily{w, http.NewResponseController(w)}
	out.within(openLimit)
	log := s.Log.With("kind", file.Kind, "name", file.Name)
	body, err := s.Open(r.Context(), file)
	switch {
	case errors.Is(err, store.ErrNotFound):
		http.Error(w, noFile, http.StatusNotFound)
		return
	case err != nil:
		log.Warn("cannot open a file for a download", "error", err)
		http.Error(w, "the object storage does not answer, the log of the server says more", http.StatusBadGateway)
		return
	}
	defer func() { _ = body.Close() }() // only read from
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return
	}
	if _, err := io.Copy(out, body); err != nil {
		if r.Context().Err() == nil {
			log.Warn("a download broke off", "error", err)
		}
		panic(http.ErrAbortHandler) // so that the client does not take what it has for the whole file
	}
}
