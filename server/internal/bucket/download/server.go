package download

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Server serves the files for which a Grant has a URL. It reads the request from the API server, so any replica can
// answer, not only the leader.
type Server struct {
	Client    client.Reader // reads from the API server
	Namespace string        // of the DownloadRequests
	Keys      *signing.Keys
	// Open opens a file as it is stored. The error wraps store.ErrNotFound if there is none.
	Open func(ctx context.Context, file store.File) (io.ReadCloser, error)
	Log  hclog.Logger
	Now  func() time.Time
}

// keyTimeout limits how long a request waits for the key, which is read once.
const keyTimeout = 10 * time.Second

// ServeHTTP implements http.Handler. The name of the request is the last element of the path. No input of a user is
// used before the token is verified, and no field of the request permits anything.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	claim, err := parse(r.URL.Path, r.URL.Query().Get("token"))
	switch {
	case errors.Is(err, errNoFile):
		http.NotFound(w, r)
		return
	case err != nil || !s.Now().Before(claim.Until):
		refuse(w)
		return
	}
	key, err := s.key(r.Context())
	switch {
	case err != nil:
		s.Log.Warn("cannot verify the token of a download", "error", err)
		http.Error(w, "the token cannot be verified at the moment, try again", http.StatusServiceUnavailable)
		return
	case key == nil || !claim.proven(key):
		refuse(w)
		return
	}
	var request velerov1.DownloadRequest
	err = s.Client.Get(r.Context(), client.ObjectKey{Namespace: s.Namespace, Name: claim.Request}, &request)
	switch {
	case client.IgnoreNotFound(err) != nil:
		s.Log.Warn("cannot read a download request", "request", claim.Request, "error", err)
		http.Error(w, "the API server does not answer, try again", http.StatusServiceUnavailable)
		return
	case err != nil || request.UID != claim.UID || FileOf(&request) != claim.File:
		refuse(w)
		return
	}
	s.send(w, r, claim.File)
}

func refuse(w http.ResponseWriter) {
	http.Error(w, "the link is wrong or has expired, ask for a new one", http.StatusForbidden)
}

// key returns the key of the tokens, or nil if no token was ever made.
func (s *Server) key(ctx context.Context) (*signing.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	key, err := s.Keys.Get(ctx)
	return key, client.IgnoreNotFound(err)
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

// within sets the deadline for writes to the connection.
func (s steadily) within(limit time.Duration) {
	_ = s.connection.SetWriteDeadline(time.Now().Add(limit)) // which a connection of HTTP supports
}

// send streams the file as it is stored, compressed.
func (s *Server) send(w http.ResponseWriter, r *http.Request, file store.File) {
	out := steadily{w, http.NewResponseController(w)}
	out.within(openLimit)
	log := s.Log.With("kind", file.Kind, "name", file.Name)
	ctx := r.Context()
	asked, ranged := byteRange(r.Header.Get("Range"))
	if ranged {
		ctx = hostapi.WithRange(ctx, asked)
	}
	body, err := s.Open(ctx, file)
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
	if part := objectstore.PartOf(body); part != nil && ranged {
		err = sendPart(out, asked, part, body)
	} else { // the whole file, as HTTP allows
		_, err = io.Copy(out, body)
	}
	if err != nil {
		if r.Context().Err() == nil {
			log.Warn("a download broke off", "error", err)
		}
		panic(http.ErrAbortHandler) // so that the client does not accept a part as the whole file
	}
}
