package backupqueue

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// errDead is the reply to all writes of a server that was killed.
var errDead = errors.New("the server is dead")

// errLost is the error of a write whose reply is lost.
var errLost = errors.New("the connection was reset")

// faultyClient is the client of a queue whose server can be killed.
type faultyClient struct {
	client.Client
	observer  *observer
	conflicts bool         // every second write fails with a conflict
	losses    bool         // every fifth write is carried out, but its reply is lost
	left      atomic.Int64 // writes until the server is killed; a very negative number means never
	last      bool         // the last write before the kill is carried out, but its reply is lost
	writes    atomic.Int64
}

func (c *faultyClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	n := c.writes.Add(1)
	switch left := c.left.Add(-1); {
	case left < -1<<40: // no kill was requested
	case left < -1:
		return errDead
	case left == -1:
		if c.last {
			_ = c.write(ctx, obj, patch, opts) // the reply is lost
		}
		return errDead
	}
	if c.conflicts && n%2 == 0 {
		return apierrors.NewConflict(velerov1.Resource("backups"), obj.GetName(), errors.New("planted"))
	}
	err := c.write(ctx, obj, patch, opts)
	if err == nil && c.losses && n%5 == 0 {
		return errLost
	}
	return err
}

func (c *faultyClient) write(
	ctx context.Context, obj client.Object, patch client.Patch, opts []client.PatchOption,
) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if err == nil {
		c.observer.wrote(obj)
	}
	return err
}

// streams are the watches of a queue. They can be delayed, so that the cache is stale, and broken, so that the queue
// has to list again.
type streams struct {
	mu      sync.Mutex
	changed *sync.Cond
	held    bool             // events of Backups are held up
	lost    bool             // no watch can be opened
	old     bool             // the resource versions from which watches would continue are too old
	open    map[*stream]bool // the value reports whether it is of Backups
}

func newStreams() *streams {
	s := &streams{open: map[*stream]bool{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *streams) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			return next.RoundTrip(r)
		}
		if status := s.refuses(r); status != 0 {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		}
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusOK {
			response.Body = s.add(response.Body, strings.HasSuffix(r.URL.Path, "/backups"))
		}
		return response, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// refuses returns the status with which a watch is refused, or 0.
func (s *streams) refuses(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	continues := r.URL.Query().Get("sendInitialEvents") == "" && r.URL.Query().Get("resourceVersion") != ""
	switch {
	case s.lost:
		return http.StatusServiceUnavailable
	case s.old && continues:
		return http.StatusGone
	default:
		return 0
	}
}

func (s *streams) add(body io.ReadCloser, ofBackups bool) io.ReadCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &stream{ReadCloser: body, streams: s}
	s.open[added] = ofBackups
	return added
}

// hold delays the events of Backups until release.
func (s *streams) hold() { s.set(func() { s.held = true }) }

func (s *streams) release() { s.set(func() { s.held = false }) }

// lose breaks all watches and refuses new ones until find. They then have to list again.
func (s *streams) lose() {
	var broken []*stream
	s.set(func() {
		s.lost, s.old = true, true
		for stream := range s.open {
			broken = append(broken, stream)
		}
	})
	for _, stream := range broken {
		_ = stream.ReadCloser.Close()
	}
}

func (s *streams) find() { s.set(func() { s.lost = false }) }

func (s *streams) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.changed.Broadcast()
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	streams *streams
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	for s.streams.held && s.streams.open[s] {
		s.streams.changed.Wait()
	}
	return n, err
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.streams.set(func() { delete(s.streams.open, s) })
	return s.ReadCloser.Close()
}
