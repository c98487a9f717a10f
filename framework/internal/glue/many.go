package glue

import (
	"context"
	"errors"
	"time"
)

// ManyOperations is how many ids a host may send in a call about many operations.
const ManyOperations = 64

const (
	manyAtOnce = 16                     // calls of an implementation
	manySoon   = 250 * time.Millisecond // longer than the implementations' calls take normally
)

// Many calls ask for each id, several at once, and returns the replies that are there soon. Calls that fail, panic or
// take longer are left out: the host repeats them one by one and gets their errors.
func Many[R any](
	ctx context.Context, ids []string, ask func(ctx context.Context, id string) (R, error),
) (map[string]R, error) {
	if len(ids) > ManyOperations {
		return nil, Invalid("the call is about %d operations, want at most %d", len(ids), ManyOperations)
	}
	ctx, cancel := context.WithTimeout(ctx, manySoon)
	defer cancel()
	type answer struct {
		id    string
		reply R
		err   error
	}
	todo, answers := make(chan string, len(ids)), make(chan answer, len(ids))
	for _, id := range ids {
		todo <- id
	}
	close(todo)
	for range min(len(ids), manyAtOnce) {
		go func() {
			for id := range todo {
				if ctx.Err() != nil {
					return
				}
				reply, err := recovered(func() (R, error) { return ask(sameCall(ctx), id) })
				answers <- answer{id, reply, err}
			}
		}()
	}
	soon := make(map[string]R, len(ids))
	for range ids {
		select {
		case a := <-answers:
			if a.err == nil {
				soon[a.id] = a.reply
			}
		case <-ctx.Done():
			return soon, nil
		}
	}
	return soon, nil
}

var errPanicked = errors.New("plugin panicked")

// recovered returns what f returns, or errPanicked.
func recovered[R any](f func() (R, error)) (reply R, err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return f()
}

// sameCall returns a context for another goroutine of a call.
func sameCall(ctx context.Context) context.Context {
	begun := callOf(ctx)
	if begun == nil {
		return ctx
	}
	same := *begun
	return context.WithValue(ctx, callKey{}, &same)
}
