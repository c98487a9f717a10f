package run

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// Fence stops the writes of a process when another one may have taken over. It is open for a limited time after each
// renewal of the lease, by the monotonic clock and by the wall clock: one of them advances while the process or the
// machine is stopped. So after a longer stop, the fence is closed before the first write of the process.
//
// A closed fence opens again if the lease can be renewed, because then no other process has taken over. Once the lease
// is lost, the fence stays closed. It is safe for concurrent use.
type Fence struct {
	open time.Duration // after a renewal; 0 for no limit
	now  func() time.Time
	lost context.Context
	lose context.CancelCauseFunc

	mu      sync.Mutex
	renewed time.Time
	changed chan struct{} // closed at the next renewal
}

// NewFence returns a fence that is closed at first, and open for a time after each renewal. An open time of 0 is for a
// process without a lease: the fence is always open.
func NewFence(open time.Duration) *Fence {
	f := &Fence{open: open, now: time.Now, changed: make(chan struct{})}
	f.lost, f.lose = context.WithCancelCause(context.Background())
	return f
}

// Renew opens the fence. began is when the renewal of the lease began. Other processes count the time from its
// arrival, which is later.
func (f *Fence) Renew(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = began
	close(f.changed)
	f.changed = make(chan struct{})
}

// Lose closes the fence permanently.
func (f *Fence) Lose() { f.lose(ErrLostLead) }

// Lost returns a context that ends when the lease is lost.
func (f *Fence) Lost() context.Context { return f.lost }

// Wait returns when this process may write, usually at once. While the lease is overdue, it waits. It returns
// ErrLostLead if the lease is lost, and the cause of ctx if that ends first.
func (f *Fence) Wait(ctx context.Context) error {
	for {
		open, changed := f.state()
		switch {
		case f.lost.Err() != nil:
			return ErrLostLead
		case open:
			return nil
		}
		select {
		case <-changed:
		case <-f.lost.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// state reports whether the fence is open, and returns a channel that is closed at the next renewal.
func (f *Fence) state() (open bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == 0 {
		return true, f.changed
	}
	now := f.now()
	monotonic, wall := now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))
	return !f.renewed.IsZero() && max(monotonic, wall) < f.open, f.changed
}

// Config returns a copy of config whose clients wait for the fence before each request that writes.
func (f *Fence) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fencedTransport{fence: f, next: next} })
	return config
}

type fencedTransport struct {
	fence *Fence
	next  http.RoundTripper
}

// webSocketProtocol is a header of requests that open a WebSocket. A GET with it runs a command in a container.
const webSocketProtocol = "Sec-Websocket-Protocol"

// RoundTrip implements http.RoundTripper.
func (t fencedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	reads := request.Method == http.MethodGet || request.Method == http.MethodHead
	if !reads || request.Header.Get(webSocketProtocol) != "" {
		if err := t.fence.Wait(request.Context()); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // as a RoundTripper must
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// Store returns a store that waits for the fence before it writes or deletes an object, and again before a written
// object is complete.
func (f *Fence) Store(objects objectstore.Store) objectstore.Store {
	return fencedStore{Store: objects, fence: f}
}

type fencedStore struct {
	objectstore.Store
	fence *Fence
}

// PutObject implements objectstore.Store.
func (s fencedStore) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if err := s.fence.Wait(ctx); err != nil {
		return err
	}
	return s.Store.PutObject(ctx, bucket, key, fencedBody{ctx: ctx, body: body, fence: s.fence})
}

// DeleteObject implements objectstore.Store.
func (s fencedStore) DeleteObject(ctx context.Context, bucket, key string) error {
	if err := s.fence.Wait(ctx); err != nil {
		return err
	}
	return s.Store.DeleteObject(ctx, bucket, key)
}

// SetHold implements objectstore.Store.
func (s fencedStore) SetHold(ctx context.Context, bucket, key string, on bool) error {
	if err := s.fence.Wait(ctx); err != nil {
		return err
	}
	return s.Store.SetHold(ctx, bucket, key, on)
}

// Snapshotter returns a snapshotter that waits for the fence before it creates or deletes anything.
func (f *Fence) Snapshotter(s volumesnapshotter.Snapshotter) volumesnapshotter.Snapshotter {
	return fencedSnapshotter{Snapshotter: s, fence: f}
}

type fencedSnapshotter struct {
	volumesnapshotter.Snapshotter
	fence *Fence
}

// CreateVolumeFromSnapshot implements volumesnapshotter.Snapshotter.
func (s fencedSnapshotter) CreateVolumeFromSnapshot(
	ctx context.Context, snapshotID string, like volumesnapshotter.Volume,
) (string, error) {
	if err := s.fence.Wait(ctx); err != nil {
		return "", err
	}
	return s.Snapshotter.CreateVolumeFromSnapshot(ctx, snapshotID, like)
}

// CreateSnapshot implements volumesnapshotter.Snapshotter.
func (s fencedSnapshotter) CreateSnapshot(
	ctx context.Context, volumeID, zone string, tags map[string]string,
) (string, error) {
	if err := s.fence.Wait(ctx); err != nil {
		return "", err
	}
	return s.Snapshotter.CreateSnapshot(ctx, volumeID, zone, tags)
}

// DeleteSnapshot implements volumesnapshotter.Snapshotter.
func (s fencedSnapshotter) DeleteSnapshot(ctx context.Context, snapshotID string) error {
	if err := s.fence.Wait(ctx); err != nil {
		return err
	}
	return s.Snapshotter.DeleteSnapshot(ctx, snapshotID)
}

type fencedBody struct {
	ctx   context.Context
	body  io.Reader
	fence *Fence
}

// Read implements io.Reader. A store completes an object only after it has read io.EOF.
func (b fencedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == io.EOF { //nolint:errorlint // unchanged, as an io.Reader must
		if err := b.fence.Wait(b.ctx); err != nil {
			return n, err
		}
	}
	return n, err
}
