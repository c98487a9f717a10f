package operations

import (
	"context"
	"sync"
)

// turns lets one caller at a time change an operation, in the order of the calls. Changes of different operations do
// not wait for each other.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue
}

// queue holds the callers that change one operation or wait to do so.
type queue struct {
	callers int
	turn    chan struct{} // full while a caller has its turn; senders wait in the order in which they came
}

// enter waits for the caller's turn, which lasts until it calls leave. It returns the context's error if ctx ends
// first.
func (t *turns) enter(ctx context.Context, id string) (leave func(), err error) {
	q := t.join(id)
	select {
	case q.turn <- struct{}{}:
		return func() {
			<-q.turn
			t.quit(id, q)
		}, nil
	case <-ctx.Done():
		t.quit(id, q)
		return nil, ctx.Err()
	}
}

func (t *turns) join(id string) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[id]
	if q == nil {
		if t.queues == nil {
			t.queues = map[string]*queue{}
		}
		q = &queue{turn: make(chan struct{}, 1)}
		t.queues[id] = q
	}
	q.callers++
	return q
}

func (t *turns) quit(id string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.callers--; q.callers == 0 {
		delete(t.queues, id)
	}
}
