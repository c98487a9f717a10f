package console

import (
	"context"
	"reflect"
	"sync"
	"time"
)

const (
	// firstAnswer is how long a page waits for an answer that nobody has got before. Without it, the page says so, and
	// an open page shows the answer when it arrives.
	firstAnswer = 300 * time.Millisecond
	// askWithin is the longest time for an answer.
	askWithin = 15 * time.Second
	// dearAnswer keeps pages from asking all the time when there is no server, so that each question takes as long as it
	// may.
	dearAnswer = 5
)

// question is a question of a viewer with its last answer.
type question struct {
	signal

	mu     sync.Mutex
	answer any
	at     time.Time     // of the answer
	took   time.Duration // until the answer was there
	asking chan struct{} // closed when the answer to the current question has arrived; nil if none is asked
	used   time.Time
}

// Ask returns the last answer to a question of the viewer, and false if there is none yet. The question is asked in the
// background if the answer is older than most, and than what it takes to get one, times dearAnswer. key identifies the
// question. An answer that says what went wrong is an answer.
func Ask[T any](l *Look, key string, most time.Duration, ask func(ctx context.Context) T) (answer T, ok bool) {
	q := l.question(key)
	l.made(q)
	asking := q.begin(l.ctx, most, func(ctx context.Context) any { return ask(ctx) })
	if asking != nil {
		timer := time.NewTimer(firstAnswer)
		defer timer.Stop()
		select {
		case <-asking:
		case <-timer.C:
		case <-l.Request.Context().Done():
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	answer, ok = q.answer.(T)
	return answer, ok
}

// begin asks if the answer is too old. It returns what to wait for if there is no answer yet.
func (q *question) begin(ctx context.Context, most time.Duration, ask func(context.Context) any) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = time.Now()
	if q.asking == nil && time.Since(q.at) > max(most, dearAnswer*q.took) {
		asking, began := make(chan struct{}), time.Now()
		q.asking = asking
		go func() {
			ctx, cancel := context.WithTimeout(ctx, askWithin)
			defer cancel()
			answer := ask(ctx)
			q.mu.Lock()
			same := reflect.DeepEqual(answer, q.answer)
			q.answer, q.at, q.took, q.asking = answer, time.Now(), time.Since(began), nil
			q.mu.Unlock()
			close(asking)
			if !same {
				q.wake()
			}
		}()
	}
	if !q.at.IsZero() {
		return nil
	}
	return q.asking
}

func (q *question) idle(most time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asking == nil && !q.heard() && time.Since(q.used) > most
}
