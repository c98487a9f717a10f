package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
	objectstore "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// store keeps objects in memory, so they are lost with the process.
type store struct {
	mu      sync.Mutex
	config  map[string]string
	objects map[string][]byte
}

// newStore is called by Init.
func newStore(_ context.Context, setup *framework.Setup) (objectstore.ObjectStore, error) {
	config := framework.Config[map[string]string](setup)
	journal(fmt.Sprintf("Init bucket=%s", config["bucket"]))
	switch config["do"] {
	case "exit":
		fmt.Fprintln(inheritedStderr, "cannot reach the tape robot")
		os.Exit(5)
	case "hang":
		time.Sleep(time.Hour)
	case "refuse":
		return nil, errors.New(`key "regoin" is unknown, did you mean region`)
	}
	return &store{config: config, objects: map[string][]byte{}}, nil
}

// misbehave follows the instruction in the key.
func misbehave(ctx context.Context, key string) error {
	switch key {
	case "exit":
		fmt.Fprintln(inheritedStderr, "tape torn")
		os.Exit(6)
	case "hang":
		journal("hanging")
		<-ctx.Done()
		time.Sleep(time.Hour)
	case "fail":
		return errors.New("tape full")
	}
	return nil
}

func (s *store) PutObject(ctx context.Context, input *objectstore.PutObjectInput) error {
	key, body := input.Key, input.Body
	if key == "die half way" {
		_, _ = io.CopyN(io.Discard, body, 100<<10)
		os.Exit(6)
	}
	if err := misbehave(ctx, key); err != nil {
		return err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		journal("upload given up")
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = data
	return nil
}

func (s *store) ObjectExists(
	ctx context.Context, input *objectstore.ObjectExistsInput,
) (*objectstore.ObjectExistsOutput, error) {
	key := input.Key
	journal("ObjectExists " + key)
	if key == "die once" && os.Remove(os.Getenv("CLEAT_TEST_DIE_ONCE")) == nil {
		os.Exit(4)
	}
	if err := misbehave(ctx, key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.objects[key]
	return &objectstore.ObjectExistsOutput{Exists: there}, nil
}

func (s *store) GetObject(
	ctx context.Context, input *objectstore.GetObjectInput,
) (*objectstore.GetObjectOutput, error) {
	key := input.Key
	if key == "endless" {
		return &objectstore.GetObjectOutput{Body: io.NopCloser(endless{})}, nil
	}
	if key == "die half way" {
		return &objectstore.GetObjectOutput{Body: io.NopCloser(io.MultiReader(io.LimitReader(endless{}, 100<<10), grave{}))},
			nil
	}
	if err := misbehave(ctx, key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, there := s.objects[key]
	if !there {
		return nil, fmt.Errorf("%s does not exist", key)
	}
	return &objectstore.GetObjectOutput{Body: io.NopCloser(&slice{data})}, nil
}

type slice struct{ rest []byte }

func (s *slice) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// grave is a reader that ends the process after earlier data had time to be sent.
type grave struct{}

func (grave) Read([]byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	os.Exit(6)
	return 0, nil
}

func (s *store) ListCommonPrefixes(
	context.Context, *objectstore.ListCommonPrefixesInput,
) (*objectstore.ListCommonPrefixesOutput, error) {
	return nil, nil
}

func (s *store) ListObjects(context.Context, *objectstore.ListObjectsInput) (*objectstore.ListObjectsOutput, error) {
	return nil, nil
}

func (s *store) DeleteObject(ctx context.Context, input *objectstore.DeleteObjectInput) error {
	return misbehave(ctx, input.Key)
}

func (s *store) CreateSignedURL(
	context.Context, *objectstore.CreateSignedURLInput,
) (*objectstore.CreateSignedURLOutput, error) {
	return &objectstore.CreateSignedURLOutput{URL: fmt.Sprintf("https://tapes.example.io/%s?pid=%d", s.config["bucket"],
		os.Getpid())}, nil
}
