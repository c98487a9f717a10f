package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// memory is an ObjectStore that forgets everything when its process ends.
type memory struct {
	mu      sync.Mutex
	scheme  string
	objects map[string][]byte // by bucket/key
}

func newMemory(hclog.Logger) (osv1.ObjectStore, error) {
	return &memory{objects: map[string][]byte{}}, nil
}

func (m *memory) Init(_ context.Context, config map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scheme = config["scheme"]
	return nil
}

func (m *memory) PutObject(_ context.Context, bucket, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[bucket+"/"+key] = content
	return nil
}

func (m *memory) ObjectExists(_ context.Context, bucket, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[bucket+"/"+key]
	return ok, nil
}

func (m *memory) GetObject(_ context.Context, bucket, key string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[bucket+"/"+key]
	if !ok {
		return nil, fmt.Errorf("no object %s in bucket %s", key, bucket)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (m *memory) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	keys, err := m.ListObjects(ctx, bucket, prefix)
	folders := map[string]bool{}
	for _, key := range keys {
		if folder, _, found := strings.Cut(strings.TrimPrefix(key, prefix), delimiter); found {
			folders[prefix+folder+delimiter] = true
		}
	}
	return slices.Sorted(maps.Keys(folders)), err
}

func (m *memory) ListObjects(_ context.Context, bucket, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for path := range m.objects {
		if key, found := strings.CutPrefix(path, bucket+"/"); found && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (m *memory) DeleteObject(_ context.Context, bucket, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, bucket+"/"+key)
	return nil
}

func (m *memory) CreateSignedURL(_ context.Context, bucket, key string, ttl time.Duration) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%s://%s/%s?ttl=%d", m.scheme, bucket, key, ttl), nil
}
