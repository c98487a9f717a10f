package calls

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
)

// Answers keeps replies that do not change, so that each call is made once: for the lifetime of a process or of a
// session. The zero value is ready to use. It is safe for concurrent use.
type Answers struct {
	mu   sync.Mutex
	kept map[string]*answer // by method and plugin
}

type answer struct {
	asking  chan struct{} // holds a token while a caller asks
	message proto.Message // nil until there is a reply
}

// Get fills reply with the kept reply. Without a kept reply, Get calls ask, which fills reply, and keeps it. Concurrent
// callers with the same key wait for the first caller until their ctx ends; if its ask fails, the next caller calls its
// own.
func (a *Answers) Get(ctx context.Context, method, plugin string, reply any, ask func() error) error {
	known := a.answer(method + " " + plugin)
	select {
	case known.asking <- struct{}{}:
		defer func() { <-known.asking }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the reply of plugin %s to another caller: %w", plugin, context.Cause(ctx))
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
