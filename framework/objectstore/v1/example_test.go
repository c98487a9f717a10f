package v1_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// settings is what users write as the config of a location.
type settings struct {
	osv1.LocationConfig
	Quota int `json:"quota,omitempty" jsonschema:"the largest number of objects"`
}

// memory keeps objects in the memory of the process.
type memory struct {
	quota   int
	mu      sync.Mutex
	objects map[string][]byte
}

func newMemory(_ context.Context, setup *framework.Setup) (osv1.ObjectStore, error) {
	return &memory{quota: framework.Config[settings](setup).Quota, objects: map[string][]byte{}}, nil
}

func (m *memory) PutObject(_ context.Context, input *osv1.PutObjectInput) error {
	content, err := io.ReadAll(input.Body) // an error here means that the upload was given up
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.objects) == m.quota {
		return framework.Unavailable("%s/%s: the quota of %d objects is used up", input.Bucket, input.Key, m.quota)
	}
	m.objects[input.Key] = content
	return nil
}

func (m *memory) ObjectExists(_ context.Context, input *osv1.ObjectExistsInput) (*osv1.ObjectExistsOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, exists := m.objects[input.Key]
	return &osv1.ObjectExistsOutput{Exists: exists}, nil
}

func (m *memory) GetObject(_ context.Context, input *osv1.GetObjectInput) (*osv1.GetObjectOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, exists := m.objects[input.Key]
	if !exists {
		return nil, framework.NotFound("%s/%s: no such object", input.Bucket, input.Key)
	}
	return &osv1.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(content))}, nil
}

func (m *memory) ListObjects(_ context.Context, input *osv1.ListObjectsInput) (*osv1.ListObjectsOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(m.objects)),
		func(key string) bool { return !strings.HasPrefix(key, input.Prefix) })
	return &osv1.ListObjectsOutput{Keys: keys}, nil
}

func (m *memory) ListCommonPrefixes(
	ctx context.Context, input *osv1.ListCommonPrefixesInput,
) (*osv1.ListCommonPrefixesOutput, error) {
	objects, err := m.ListObjects(ctx, &osv1.ListObjectsInput{Bucket: input.Bucket, Prefix: input.Prefix})
	if err != nil {
		return nil, err
	}
	var prefixes []string
	for _, key := range objects.Keys {
		if folder, _, ok := strings.Cut(key[len(input.Prefix):], input.Delimiter); ok {
			prefixes = append(prefixes, input.Prefix+folder+input.Delimiter)
		}
	}
	return &osv1.ListCommonPrefixesOutput{Prefixes: slices.Compact(prefixes)}, nil
}

func (m *memory) DeleteObject(_ context.Context, input *osv1.DeleteObjectInput) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, input.Key)
	return nil
}

func (m *memory) CreateSignedURL(context.Context, *osv1.CreateSignedURLInput) (*osv1.CreateSignedURLOutput, error) {
	return nil, framework.Invalid("this store cannot sign URLs")
}

func Example() {
	registration := osv1.Register("example.io/memory", newMemory, framework.WithConfig(settings{Quota: 1000}))
	fmt.Println(registration.Kind(), registration.Name())

	ctx, store := context.TODO(), &memory{quota: 2, objects: map[string][]byte{}}
	for _, key := range []string{"backups/a/log", "backups/b/log"} {
		if err := store.PutObject(ctx, &osv1.PutObjectInput{Key: key, Body: strings.NewReader("x")}); err != nil {
			fmt.Println(err)
		}
	}
	folders, err := store.ListCommonPrefixes(ctx, &osv1.ListCommonPrefixesInput{Prefix: "backups/", Delimiter: "/"})
	fmt.Println(folders.Prefixes, err)
	// Output:
	// ObjectStore example.io/memory
	// [backups/a/ backups/b/] <nil>
}

// shelfSettings is the config of a location whose store stands in front of another one.
type shelfSettings struct {
	osv1.FrontConfig
	Shelf string `json:"shelf" jsonschema:"the folder of all objects"`
}

// shelf keeps all objects of the store behind below a folder. Calls that it does not have are those of that store.
type shelf struct {
	*osv1.Behind
	folder string
}

func newShelf(ctx context.Context, setup *framework.Setup) (osv1.ObjectStore, error) {
	config := framework.Config[shelfSettings](setup)
	behind, err := osv1.OpenBehind(ctx, config.FrontConfig)
	if err != nil {
		return nil, err
	}
	return &shelf{Behind: behind, folder: config.Shelf + "/"}, nil
}

func (s *shelf) PutObject(ctx context.Context, input *osv1.PutObjectInput) error {
	below := *input
	below.Key = s.folder + input.Key
	return s.Behind.PutObject(ctx, &below)
}

func (s *shelf) GetObject(ctx context.Context, input *osv1.GetObjectInput) (*osv1.GetObjectOutput, error) {
	below := *input
	below.Key = s.folder + input.Key
	return s.Behind.GetObject(ctx, &below)
}

func ExampleOpenBehind() {
	registration := osv1.Register("example.io/shelf", newShelf, framework.WithConfig(shelfSettings{}),
		framework.WithRoles(framework.RoleInFront))
	fmt.Println(registration.Name())

	// The server does this, and writes the address into the config.
	dir, err := os.MkdirTemp("", "shelf")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	behind := &memory{quota: 2, objects: map[string][]byte{}}
	server, err := osv1.ServeBehind(filepath.Join(dir, "socket"), behind, hclog.NewNullLogger())
	if err != nil {
		panic(err)
	}
	defer server.Stop()

	ctx := context.TODO()
	opened, err := osv1.OpenBehind(ctx, osv1.FrontConfig{Store: "example.io/memory", Behind: server.Address()})
	if err != nil {
		panic(err)
	}
	store := &shelf{Behind: opened, folder: "top/"}
	fmt.Println(store.PutObject(ctx, &osv1.PutObjectInput{Key: "log", Body: strings.NewReader("x")}))
	fmt.Println(slices.Collect(maps.Keys(behind.objects)))
	_, err = store.GetObject(ctx, &osv1.GetObjectInput{Key: "none"})
	fmt.Println(errors.Is(err, framework.ErrNotFound), store.Close())
	// Output:
	// example.io/shelf
	// <nil>
	// [top/log]
	// true <nil>
}
