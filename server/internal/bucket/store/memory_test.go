package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// memory is an object store in memory. It keeps an object only when its body ended regularly, unless
// keepBroken is set, and records what it was asked to do.
type memory struct {
	objectstore.Store // has no calls about locks

	mu      sync.Mutex
	objects map[string][]byte
	calls   []string // "put KEY", "delete KEY" in the order in which they took effect

	keepBroken bool
	// fault is asked before each call, one at a time, and may return the error of it; "after" calls have had their effect.
	fault  func(call string) error
	faults sync.Mutex
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

func (m *memory) Name() string                                  { return "test/memory" }
func (m *memory) Init(context.Context, map[string]string) error { return nil }

func (m *memory) check(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.faults.Lock()
	defer m.faults.Unlock()
	if m.fault == nil {
		return nil
	}
	return m.fault(call)
}

func (m *memory) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if err := m.check(ctx, "put "+key); err != nil {
		return err
	}
	content, err := io.ReadAll(body)
	if err == nil {
		err = ctx.Err()
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	m.mu.Lock()
	_, exists := m.objects[bucket+"/"+key]
	m.mu.Unlock()
	if exists && len(sent.Get("cleat-if-absent")) > 0 {
		return framework.Exists("%s exists", key)
	}
	if err == nil || m.keepBroken {
		m.mu.Lock()
		m.objects[bucket+"/"+key] = content
		m.calls = append(m.calls, "put "+key)
		m.mu.Unlock()
	}
	if err != nil {
		return err
	}
	return m.check(ctx, "after put "+key)
}

func (m *memory) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	if err := m.check(ctx, "exists "+key); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.objects[bucket+"/"+key]
	return found, nil
}

func (m *memory) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	if err := m.check(ctx, "get "+key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	content, found := m.objects[bucket+"/"+key]
	if !found {
		return nil, errors.New("no such key")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (m *memory) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	if err := m.check(ctx, "prefixes "+prefix); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, key := range m.keys(bucket) {
		if rest, below := strings.CutPrefix(key, prefix); below {
			if dir, _, deeper := strings.Cut(rest, delimiter); deeper {
				found[prefix+dir+delimiter] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}

func (m *memory) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	if err := m.check(ctx, "list "+prefix); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(m.keys(bucket), func(key string) bool { return !strings.HasPrefix(key, prefix) }), nil
}

// DeleteObject takes the deletion of a missing object for an error, as some object stores do.
func (m *memory) DeleteObject(ctx context.Context, bucket, key string) error {
	if err := m.check(ctx, "delete "+key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.objects[bucket+"/"+key]; !found {
		return fmt.Errorf("no such key %s", key)
	}
	delete(m.objects, bucket+"/"+key)
	m.calls = append(m.calls, "delete "+key)
	return nil
}

func (m *memory) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	if err := m.check(ctx, "sign "+key); err != nil {
		return "", err
	}
	return fmt.Sprintf("https://objects.test/%s/%s?ttl=%s", bucket, key, ttl), nil
}

func (m *memory) keys(bucket string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.objects {
		if key, in := strings.CutPrefix(key, bucket+"/"); in {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m *memory) content(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.objects["bucket/"+key])
}

func (m *memory) set(key, content string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects["bucket/"+key] = []byte(content)
}

// puts lists the keys in the order in which they became visible.
func (m *memory) puts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for _, call := range m.calls {
		if key, put := strings.CutPrefix(call, "put "); put {
			keys = append(keys, key)
		}
	}
	return keys
}
