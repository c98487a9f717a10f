package waits

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxPast is the number of ended waits that a part keeps.
const maxPast = 10

// Part holds the waits of one part of a run, such as an item. The zero value is ready for use. It is safe for
// concurrent use.
type Part struct {
	mu   sync.Mutex
	open []*Wait
	past []Waiting
}

type partKey struct{}

// WithPart returns a context whose waits are in the part as well as in the list.
func WithPart(ctx context.Context, p *Part) context.Context {
	return context.WithValue(ctx, partKey{}, p)
}

// Open returns the waits that go on.
func (p *Part) Open() []Waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Waiting
	for _, w := range p.open {
		all = append(all, w.describe())
	}
	return all
}

// Past returns the first few of the waits that have ended and were not brief.
func (p *Part) Past() []Waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.past)
}

func (p *Part) begin(w *Wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, w)
}

func (p *Part) end(w *Wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.open, w)
	if i < 0 {
		return // it has ended
	}
	p.open = slices.Delete(p.open, i, i+1)
	if lasted := time.Since(w.since); lasted >= brief && len(p.past) < maxPast {
		one := w.describe()
		one.Lasted = lasted
		p.past = append(p.past, one)
	}
}

// describe returns the wait as it is now.
func (w *Wait) describe() Waiting {
	w.list.mu.Lock()
	defer w.list.mu.Unlock()
	return Waiting{For: w.what(), Because: w.because, Since: w.since, Parts: 1}
}
