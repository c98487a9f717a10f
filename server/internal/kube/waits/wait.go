package waits

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Limits of texts in bytes.
const (
	maxFor     = 300
	maxBecause = 300
)

// Wait is an open wait. It is safe for concurrent use.
type Wait struct {
	list  *List
	part  *Part         // nil for none
	at    *list.Element // in the list, nil after the end; guarded by its mu like the rest
	since time.Time

	format string
	args   []any
	text   string // formatted, when it is needed first

	because string
}

type key struct{}

// With returns a context whose waits are in the list.
func With(ctx context.Context, l *List) context.Context { return context.WithValue(ctx, key{}, l) }

// Of returns the list in the context, or a list without readers.
func Of(ctx context.Context) *List {
	if l, ok := ctx.Value(key{}).(*List); ok {
		return l
	}
	return New()
}

// Begin adds a wait to the list in the context. What it is for is formatted when it has lasted for a while: the
// arguments must not change. End must be called.
func Begin(ctx context.Context, format string, args ...any) *Wait {
	part, _ := ctx.Value(partKey{}).(*Part)
	l, ok := ctx.Value(key{}).(*List)
	switch {
	case !ok && part == nil:
		return &Wait{}
	case !ok:
		l = New()
	}
	w := l.Begin(format, args...)
	if part != nil {
		w.part = part
		part.begin(w)
	}
	return w
}

// Begin adds a wait to the list; see the function Begin.
func (l *List) Begin(format string, args ...any) *Wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &Wait{list: l, since: time.Now(), format: format, args: args}
	w.at = l.open.PushBack(w)
	l.arm()
	return w
}

// Because sets the reason of the wait.
func (w *Wait) Because(why string) {
	if w.list == nil {
		return
	}
	w.list.mu.Lock()
	defer w.list.mu.Unlock()
	w.because = shorten.Text(why, maxBecause)
}

// End removes the wait from its list. It may be called several times.
func (w *Wait) End() {
	if w.part != nil {
		w.part.end(w)
	}
	if w.list != nil {
		w.list.end(w)
	}
}

// Retry is the wait of a call that is repeated while it fails. The zero value is ready for use by one goroutine.
type Retry struct {
	what string
	wait *Wait // nil before the first failure
}

// Failed records that the call has failed, and what its next attempt waits for.
func (r *Retry) Failed(ctx context.Context, what string, err error) {
	if r.wait != nil && r.what != what {
		r.End()
	}
	if r.wait == nil {
		r.what, r.wait = what, Begin(ctx, "%s", what)
	}
	r.wait.Because(err.Error())
}

// End records that the call is not repeated any more.
func (r *Retry) End() {
	if r.wait != nil {
		r.wait.End()
		r.wait = nil
	}
}

// what returns the subject of the wait. The caller holds the mu of the list.
func (w *Wait) what() string {
	if w.text == "" {
		w.text = shorten.Text(fmt.Sprintf(w.format, w.args...), maxFor)
	}
	return w.text
}
