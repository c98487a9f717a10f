package calls

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
)

// Answers keeps replies that do not change, so that they are asked for once: those of a process for as long as it runs,
// those of a session until it ends. The zero value is ready to use, also concurrently.
type Answers struct {
	mu   sync.Mutex
	kept map[string]*answer // by method and plugin
}

type answer struct {
	asking  chan struct{} // holds a token while a caller asks
	message proto.Message // nil until it is known
}

// Get fills reply with the kept reply, or has ask fill it and keeps that. Concurrent callers with the same key wait for the
// first one, as long as their ctx allows; when ask fails, the next one asks.
func (a *Answers) Get(ctx context.Context, method, plugin string, reply any, ask func() error) error {
	known := a.answer(method + " " + plugin)
	select {
	case known.asking <- struct{}{}:
		defer func() { <-known.asking }()
	case <-ctx.Done():
		return fmt.Errorf("wait for an answer that %s was asked for: %w", plugin, context.Cause(ctx))
	}
	if known.message != nil {
		return CopyMessage(reply, known.message)
	}
	err := ask()
	if err == nil {
		known.message, err = Cloned(reply)
	}
	return err
}

func (a *Answers) answer(key string) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, there := a.kept[key]
	if !there {
		if a.kept == nil {
			a.kept = map[string]*answer{}
		}
		known = &answer{asking: make(chan struct{}, 1)}
		a.kept[key] = known
	}
	return known
}
