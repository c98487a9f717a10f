package operations_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/operations"
	"github.com/cleat-dev/cleat/framework/operations/storetest"
)

// resources is a Store on simulated custom resources: they have names and resource versions, and are created and
// updated as in an API server. An author of a store writes this much.
type resources struct {
	mu      sync.Mutex
	objects map[string]resource
	version int
	fault   func(call, id string) error // returns the error of a call
}

type resource struct {
	version int
	state   []byte
}

func newResources() *resources {
	return &resources{objects: map[string]resource{}, fault: func(string, string) error { return nil }}
}

func (r *resources) Create(_ context.Context, operation *operations.Operation) error {
	return r.put("create", operation, func(_ resource, found bool) error {
		if found {
			return operations.ErrExists
		}
		return nil
	})
}

func (r *resources) Update(_ context.Context, operation *operations.Operation) error {
	return r.put("update", operation, func(current resource, found bool) error {
		switch {
		case !found:
			return operations.ErrNotFound
		case strconv.Itoa(current.version) != operation.Version:
			return operations.ErrConflict
		}
		return nil
	})
}

func (r *resources) put(call string, operation *operations.Operation, check func(resource, bool) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fault(call, operation.ID); err != nil {
		return err
	}
	current, found := r.objects[operation.ID]
	if err := check(current, found); err != nil {
		return fmt.Errorf("%s %s: %w", call, operation.ID, err)
	}
	state, err := operations.Encode(operation)
	if err != nil {
		return err
	}
	r.version++
	r.objects[operation.ID] = resource{version: r.version, state: state}
	operation.Version = strconv.Itoa(r.version)
	return nil
}

func (r *resources) Get(_ context.Context, id string) (*operations.Operation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fault("get", id); err != nil {
		return nil, err
	}
	current, found := r.objects[id]
	if !found {
		return nil, fmt.Errorf("get %s: %w", id, operations.ErrNotFound)
	}
	operation, err := operations.Decode(current.state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", operations.ErrDamaged, err)
	}
	operation.Version = strconv.Itoa(current.version)
	return operation, nil
}

func (r *resources) Delete(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, id)
	return nil
}

func (r *resources) List(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.objects)), nil
}

func (r *resources) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.objects[id]
	return found
}

func (r *resources) set(id string, state []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	r.objects[id] = resource{version: r.version, state: state}
}

// setFault makes calls fail with the error that fault returns; nil makes all succeed.
func (r *resources) setFault(fault func(call, id string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fault == nil {
		fault = func(string, string) error { return nil }
	}
	r.fault = fault
}

// operation returns a new operation with the given key.
func operation(key string) *operations.Operation {
	return &operations.Operation{
		ID: operations.ID("test", key), Runner: "test", Key: key, Input: []byte(`{"a":1}`), Owner: "me", Attempt: 1,
		Progress: framework.OperationProgress{NCompleted: 1, NTotal: 2, Units: "bytes", Description: "copying",
			LastLines: "block 1"},
	}
}

func TestStoresKeepContract(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) func() operations.Store{
		"custom resources": func(*testing.T) func() operations.Store {
			all := newResources()
			return func() operations.Store { return all }
		},
		"a directory": func(t *testing.T) func() operations.Store {
			path := t.TempDir()
			return func() operations.Store { // each as if in another process
				dir, err := operations.OpenDir(path)
				require.NoError(t, err)
				return dir
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, open(t))
		})
	}
}
