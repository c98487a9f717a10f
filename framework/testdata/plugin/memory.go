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

	"github.com/cleat-dev/cleat/framework"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// memory is an ObjectStore that keeps objects in the memory of its process.
type memory struct {
	scheme string

	mu      sync.Mutex
	objects map[string][]byte // the key is bucket/key
}

// memoryConfig is the config of memory.
type memoryConfig struct {
	Scheme string `json:"scheme,omitempty"`
}

func newMemory(_ context.Context, setup *framework.Setup) (osv1.ObjectStore, error) {
	return &memory{scheme: framework.Config[memoryConfig](setup).Scheme, objects: map[string][]byte{}}, nil
}

func (m *memory) PutObject(_ context.Context, input *osv1.PutObjectInput) error {
	content, err := io.ReadAll(input.Body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[input.Bucket+"/"+input.Key] = content
	return nil
}

func (m *memory) ObjectExists(_ context.Context, input *osv1.ObjectExistsInput) (*osv1.ObjectExistsOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[input.Bucket+"/"+input.Key]
	return &osv1.ObjectExistsOutput{Exists: ok}, nil
}

func (m *memory) GetObject(_ context.Context, input *osv1.GetObjectInput) (*osv1.GetObjectOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[input.Bucket+"/"+input.Key]
	if !ok {
		return nil, framework.NotFound("no object %s in bucket %s", input.Key, input.Bucket)
	}
	return &osv1.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(content))}, nil
}

func (m *memory) ListCommonPrefixes(
	_ context.Context, input *osv1.ListCommonPrefixesInput,
) (*osv1.ListCommonPrefixesOutput, error) {
	folders := map[string]bool{}
	for _, key := range m.keys(input.Bucket, input.Prefix) {
		if folder, _, found := strings.Cut(strings.TrimPrefix(key, input.Prefix), input.Delimiter); found {
			folders[input.Prefix+folder+input.Delimiter] = true
		}
	}
	return &osv1.ListCommonPrefixesOutput{Prefixes: slices.Sorted(maps.Keys(folders))}, nil
}

func (m *memory) ListObjects(_ context.Context, input *osv1.ListObjectsInput) (*osv1.ListObjectsOutput, error) {
	return &osv1.ListObjectsOutput{Keys: m.keys(input.Bucket, input.Prefix)}, nil
}

func (m *memory) keys(bucket, prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for path := range m.objects {
		if key, found := strings.CutPrefix(path, bucket+"/"); found && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m *memory) DeleteObject(_ context.Context, input *osv1.DeleteObjectInput) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, input.Bucket+"/"+input.Key)
	return nil
}

func (m *memory) CreateSignedURL(
	_ context.Context, input *osv1.CreateSignedURLInput,
) (*osv1.CreateSignedURLOutput, error) {
	return &osv1.CreateSignedURLOutput{URL: fmt.Sprintf("%s://%s/%s?ttl=%d", m.scheme, input.Bucket, input.Key,
		input.TTL)}, nil
}
