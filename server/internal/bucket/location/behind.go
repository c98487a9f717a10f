package location

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/hostapi"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// maxSocket is the length that the path of a socket may have on all systems.
const maxSocket = 103

// behinds serve the stores behind others, each at a socket. It is safe for concurrent use.
type behinds struct {
	dir string
	log hclog.Logger

	mu         sync.Mutex
	made       int
	byLocation map[string][]*behind
}

// behind is a served store.
type behind struct {
	of      front
	current *currentStore
	server  *objectstorev1.BehindServer
}

// serve returns the address of a store behind that of a location. Those of former configurations are served until stop,
// since runs may use them.
func (b *behinds) serve(location string, of front, store objectstore.Store) (address string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, known := range b.byLocation[location] {
		if known.of.sameBehind(of) {
			known.current.set(store) // its plugin may have been replaced
			return known.server.Address(), nil
		}
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", err
	}
	b.made++
	socket := filepath.Join(b.dir, fmt.Sprintf("%d.sock", b.made))
	if len(socket) > maxSocket {
		return "", fmt.Errorf("the path %s is too long for a socket; give the server a shorter --scratch-dir", socket)
	}
	made := &behind{of: of, current: &currentStore{store: store}}
	made.server, err = objectstorev1.ServeBehind(socket, adapter{made.current}, b.log)
	if err != nil {
		return "", err
	}
	if b.byLocation == nil {
		b.byLocation = map[string][]*behind{}
	}
	b.byLocation[location] = append(b.byLocation[location], made)
	return made.server.Address(), nil
}

// stop stops serving the stores of a location, and reports whether there are any.
func (b *behinds) stop(location string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, found := b.byLocation[location]
	for _, known := range all {
		known.server.Stop()
	}
	delete(b.byLocation, location)
	return found
}

func (b *behinds) stopAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.byLocation {
		for _, known := range all {
			known.server.Stop()
		}
	}
	b.byLocation = nil
}

// currentStore is the store of a configuration as it was opened last.
type currentStore struct {
	mu    sync.Mutex
	store objectstore.Store
}

func (c *currentStore) set(store objectstore.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store = store
}

func (c *currentStore) get() objectstore.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store
}

// adapter offers the hub of a store as authors implement one.
type adapter struct{ *currentStore }

var _ objectstorev1.Locker = adapter{}

// of returns the context of a call for the run that has called the store in front.
func (adapter) of(ctx context.Context) context.Context {
	if run := hostapi.RunOf(ctx); run != "" {
		return pluginhost.ForRun(ctx, run)
	}
	return ctx
}

// PutObject implements objectstorev1.ObjectStore.
func (a adapter) PutObject(ctx context.Context, input *objectstorev1.PutObjectInput) error {
	ctx = a.of(ctx)
	if input.IfAbsent {
		ctx = hostapi.IfAbsent(ctx)
	}
	if !input.RetainUntil.IsZero() {
		ctx = hostapi.RetainUntil(ctx, input.RetainUntil)
	}
	return a.get().PutObject(ctx, input.Bucket, input.Key, input.Body)
}

// ObjectExists implements objectstorev1.ObjectStore.
func (a adapter) ObjectExists(
	ctx context.Context, input *objectstorev1.ObjectExistsInput,
) (*objectstorev1.ObjectExistsOutput, error) {
	exists, err := a.get().ObjectExists(a.of(ctx), input.Bucket, input.Key)
	return &objectstorev1.ObjectExistsOutput{Exists: exists}, err
}

// GetObject implements objectstorev1.ObjectStore.
func (a adapter) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	ctx = a.of(ctx)
	if input.Range != nil {
		ctx = hostapi.WithRange(ctx, *input.Range)
	}
	body, err := a.get().GetObject(ctx, input.Bucket, input.Key)
	if err != nil {
		return nil, err
	}
	return &objectstorev1.GetObjectOutput{Body: body, Part: objectstore.PartOf(body)}, nil
}

// ListCommonPrefixes implements objectstorev1.ObjectStore.
func (a adapter) ListCommonPrefixes(
	ctx context.Context, input *objectstorev1.ListCommonPrefixesInput,
) (*objectstorev1.ListCommonPrefixesOutput, error) {
	prefixes, err := a.get().ListCommonPrefixes(a.of(ctx), input.Bucket, input.Prefix, input.Delimiter)
	return &objectstorev1.ListCommonPrefixesOutput{Prefixes: prefixes}, err
}

// ListObjects implements objectstorev1.ObjectStore.
func (a adapter) ListObjects(
	ctx context.Context, input *objectstorev1.ListObjectsInput,
) (*objectstorev1.ListObjectsOutput, error) {
	keys, err := a.get().ListObjects(a.of(ctx), input.Bucket, input.Prefix)
	return &objectstorev1.ListObjectsOutput{Keys: keys}, err
}

// DeleteObject implements objectstorev1.ObjectStore.
func (a adapter) DeleteObject(ctx context.Context, input *objectstorev1.DeleteObjectInput) error {
	return a.get().DeleteObject(a.of(ctx), input.Bucket, input.Key)
}

// CreateSignedURL implements objectstorev1.ObjectStore.
func (a adapter) CreateSignedURL(
	ctx context.Context, input *objectstorev1.CreateSignedURLInput,
) (*objectstorev1.CreateSignedURLOutput, error) {
	url, err := a.get().CreateSignedURL(a.of(ctx), input.Bucket, input.Key, input.TTL)
	return &objectstorev1.CreateSignedURLOutput{URL: url}, err
}

// Locks implements objectstorev1.Locker.
func (a adapter) Locks(ctx context.Context, input *objectstorev1.LocksInput) (*objectstorev1.Locks, error) {
	return a.get().Locks(a.of(ctx), input.Bucket)
}

// SetHold implements objectstorev1.Locker.
func (a adapter) SetHold(ctx context.Context, input *objectstorev1.SetHoldInput) error {
	return a.get().SetHold(a.of(ctx), input.Bucket, input.Key, input.On)
}

// Retention implements objectstorev1.Locker.
func (a adapter) Retention(
	ctx context.Context, input *objectstorev1.RetentionInput,
) (*objectstorev1.Retention, error) {
	return a.get().Retention(a.of(ctx), input.Bucket, input.Key)
}
