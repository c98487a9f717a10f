package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/item"
)

const (
	parallelLists = 3       // requests at once
	aheadLists    = 12      // lists that may be read before it is their turn
	aheadBytes    = 6 << 20 // bytes of pages that may wait for their turn
	maxRestarts   = 5       // of one list whose pages have expired, without a page in between
)

// page is a part of a list. Its objects stay valid until it was released as often as it was held.
type page struct {
	list    *list
	items   [][]byte
	raw     []byte
	holders atomic.Int32
	free    func()
}

func (p *page) hold() { p.holders.Add(1) }

func (p *page) release() {
	if p.holders.Add(-1) == 0 {
		p.free()
	}
}

// pages reads the pages of all lists ahead of the one who consumes them list by list, so that API
// server, actions and compression work at the same time. Read-ahead is bounded in requests, lists
// and bytes, except that the list whose turn it is may always have one page.
type pages struct {
	client   *client
	pageSize int
	lists    []list
	expect   func(delta int) // told how the number of objects to come changes

	mu      sync.Mutex
	changed *sync.Cond
	reading []*reading // one for each list that was begun
	turn    int        // index of the list that is consumed
	flying  int        // requests under way
	bytes   int        // read and not released
	spare   [][]byte   // buffers for the next pages
}

// reading is how far one list is.
type reading struct {
	queue []*page
	done  bool
	err   error
}

func newPages(c *client, pageSize int, lists []list, expect func(int)) *pages {
	p := &pages{client: c, pageSize: pageSize, lists: lists, expect: expect}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// each calls consume with every page of every list in order, and failed with the error that ended a
// list early. begun is called before the first page of each list. An error of any of them ends it.
// It returns when nothing of it runs any more; pages that are still held stay valid.
func (p *pages) each(ctx context.Context, begun func(*list) error, consume func(*page) error, failed func(*list, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, p.wake)
	var readers sync.WaitGroup
	defer func() {
		cancel()
		p.wake()
		readers.Wait()
		stop()
	}()

	for i := range p.lists {
		p.begin(ctx, i, &readers)
		if err := begun(&p.lists[i]); err != nil {
			return err
		}
		for {
			next, err := p.next(ctx, i)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed(&p.lists[i], err)
			}
			if next == nil {
				break
			}
			next.hold()
			err = consume(next)
			next.release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// begin makes it the turn of list i, and starts to read it and those that may be read ahead.
func (p *pages) begin(ctx context.Context, i int, readers *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = i
	for n := len(p.reading); n < len(p.lists) && n <= i+aheadLists; n++ {
		r := &reading{}
		p.reading = append(p.reading, r)
		readers.Go(func() {
			err := p.read(ctx, n, r)
			p.mu.Lock()
			defer p.mu.Unlock()
			r.done, r.err = true, err
			p.changed.Broadcast()
		})
	}
	p.changed.Broadcast()
}

// next is the next page of list i; nil after the last one, with the error that ended the list.
func (p *pages) next(ctx context.Context, i int) (*page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.reading[i]
	for len(r.queue) == 0 && !r.done && ctx.Err() == nil {
		p.changed.Wait()
	}
	if len(r.queue) == 0 {
		return nil, r.err
	}
	next := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	p.changed.Broadcast()
	return next, nil
}

// read reads all pages of list i.
func (p *pages) read(ctx context.Context, i int, r *reading) error {
	l, limit, token, expected := &p.lists[i], p.pageSize, "", 0
	restarts, starts := 0, 0 // since the last page, and from the start
	defer func() { p.expect(-expected) }()
	for {
		buf, err := p.admit(ctx, i, r)
		if err != nil {
			return err
		}
		buf, err = p.client.list(ctx, l.resource, l.namespace, l.selector, limit, token, buf)
		var got item.List
		if err == nil {
			got, err = item.SplitList(buf)
		}
		p.land(r, l, got.Items, buf, err)
		switch {
		case errors.Is(err, errPageTooBig) && limit > 1:
			limit = max(1, min(limit, p.pageSize)/4)
			continue
		case apierrors.IsResourceExpired(err) && token != "" && max(starts, restarts) < maxRestarts:
			// The snapshot that the pages belong to is gone. Go on in a newer one if the server offers
			// that; else from the start: what was backed up already is recognised.
			if token = freshToken(err); token == "" {
				starts++
			}
			restarts++
			continue
		case err != nil:
			return err
		}
		restarts = 0
		now := int(got.Remaining)
		p.expect(len(got.Items) + now - expected)
		expected = now
		if token = got.Continue; token == "" {
			return nil
		}
	}
}

// freshToken is the token with which an expired list goes on, without being a snapshot any more.
func freshToken(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// admit waits until the next page of list i may be read, and gives a buffer for it.
func (p *pages) admit(ctx context.Context, i int, r *reading) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		turn := i == p.turn && len(r.queue) == 0
		if p.flying < parallelLists && (turn || p.bytes < aheadBytes) {
			break
		}
		p.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.flying++
	if n := len(p.spare); n > 0 {
		buf := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return buf, nil
	}
	return make([]byte, 0, 64<<10), nil
}

// land ends a request that admit allowed, and queues its page if it was read.
func (p *pages) land(r *reading, l *list, items [][]byte, raw []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying--
	if err != nil || len(items) == 0 {
		p.recycle(raw)
	} else {
		p.bytes += len(raw)
		next := &page{list: l, items: items, raw: raw}
		next.free = func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.bytes -= len(raw)
			p.recycle(raw)
			p.changed.Broadcast()
		}
		r.queue = append(r.queue, next)
	}
	p.changed.Broadcast()
}

// recycle keeps a buffer for the next page, unless it is unusually big or there are enough.
func (p *pages) recycle(buf []byte) {
	if cap(buf) <= aheadBytes/parallelLists && len(p.spare) < parallelLists {
		p.spare = append(p.spare, buf[:0])
	}
}

func (p *pages) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

// describe names a list in an error.
func (l *list) describe() string {
	if l.namespace == "" {
		return "list " + l.resource.GroupResource().String()
	}
	return fmt.Sprintf("list %s in namespace %s", l.resource.GroupResource(), l.namespace)
}
