package calls

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
)

// answers keeps what does not change, so that it is asked for once: a process's for as long as it runs, a session's
// for all its life. The zero value is ready to use, concurrently.
type Answers struct {
	mu   sync.Mutex
	kept map[string]*answer // by method and plugin
}

type answer struct {
	asking  chan struct{} // holds a token while somebody asks
	message proto.Message // nil until it is known
}

// get makes reply what is known, or has ask fill it. Others that want the same wait for that as long as their ctx
// allows; when ask fails, the next one asks.
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
