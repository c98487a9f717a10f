// Package perrun keeps what an action reads from the cluster, so that it is read once per backup or restore instead of
// once per item. It imports the standard library only.
package perrun

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// kept is the number of readings that are kept: one for each run that is likely to be in progress.
const kept = 8

// Memo holds values by key, which identifies a run and, where a run needs several values, the value. The zero value is
// empty and ready for use. It is safe for concurrent use.
type Memo[T any] struct {
	mu       sync.Mutex
	readings []*reading[T] // oldest first
}

// reading is one read of a value.
type reading[T any] struct {
	key   string
	done  chan struct{} // closed when the other fields are set
	value T
	err   error
}

// Get returns the value of key, which it reads with the first call. If reading fails, the next call tries again.
func (m *Memo[T]) Get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	for {
		r, owns := m.join(key)
		if owns {
			m.fill(ctx, r, read)
			return r.value, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		if r.err == nil {
			return r.value, nil
		}
	}
}

// join returns the reading of key. If there is none, it adds one that the caller must fill.
func (m *Memo[T]) join(key string) (r *reading[T], owns bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.readings, func(r *reading[T]) bool { return r.key == key }); i >= 0 {
		return m.readings[i], false
	}
	r = &reading[T]{key: key, done: make(chan struct{})}
	m.readings = append(m.readings, r)
	if len(m.readings) > kept {
		m.readings = slices.Delete(m.readings, 0, 1)
	}
	return r, true
}

// fill sets the result of r, even if reading panics.
func (m *Memo[T]) fill(ctx context.Context, r *reading[T], read func(context.Context) (T, error)) {
	r.err = errors.New("reading from the cluster was broken off")
	defer m.finish(r)
	r.value, r.err = read(ctx)
}

func (m *Memo[T]) finish(r *reading[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.err != nil {
		m.readings = slices.DeleteFunc(m.readings, func(other *reading[T]) bool { return other == r })
	}
	close(r.done)
}
