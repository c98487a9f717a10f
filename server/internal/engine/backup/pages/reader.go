package pages

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

const (
	parallelLists = 3        // requests at the same time
	aheadLists    = 12       // lists that may be read in advance
	aheadBytes    = 6 << 20  // bytes of pages that may wait
	maxPage       = 16 << 20 // bytes of a page; a larger one is requested again with fewer objects
	maxUnpaged    = 2000     // objects in the first page if a whole list exceeds the maximum size of a reply
	maxRestarts   = 5        // of one list whose pages have expired, without a page in between
)

// Reader reads the pages of lists ahead of their consumption, so that the API server, the actions and the compression
// work at the same time. Reading ahead is bounded in requests, lists and bytes, except that the current list may
// always have one page.
type Reader struct {
	client   *kubeapi.Client
	pageSize int
	lists    []List
	expect   func(delta int)

	mu       sync.Mutex
	changed  *sync.Cond
	progress []*progress // one for each list that has begun
	turn     int         // index of the list that is consumed
	requests int         // in progress
	bytes    int         // read and not released
	spare    [][]byte    // buffers for the next pages
}

// progress is the state of reading one list.
type progress struct {
	queue []*Page
	done  bool
	err   error
}

// NewReader returns a reader of lists with pages of at most pageSize objects. If pageSize is not positive, there is
// one page per list, of any size: this is for a server that cannot page. expect is called with each change of the
// number of expected objects, from several goroutines.
func NewReader(client *kubeapi.Client, pageSize int, lists []List, expect func(delta int)) *Reader {
	r := &Reader{client: client, pageSize: pageSize, lists: lists, expect: expect}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// Each calls begun before the first page of each list, consume with every page of every list in order, and failed with
// the error that ended a list early. It returns the first error of begun or consume, or the error of ctx, after all
// its goroutines have ended. Pages that are still held stay valid.
func (r *Reader) Each(
	ctx context.Context, begun func(*List) error, consume func(*Page) error, failed func(*List, error),
) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, r.wake)
	var readers sync.WaitGroup
	defer func() {
		cancel()
		r.wake()
		readers.Wait()
		stop()
	}()

	for i := range r.lists {
		r.begin(ctx, i, &readers)
		if err := begun(&r.lists[i]); err != nil {
			return err
		}
		for {
			page, err := r.next(ctx, i)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed(&r.lists[i], err)
			}
			if page == nil {
				break
			}
			page.Hold()
			err = consume(page)
			page.Release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// begin makes list i the current one, and starts to read it and the lists that may be read ahead.
func (r *Reader) begin(ctx context.Context, i int, readers *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn = i
	for n := len(r.progress); n < len(r.lists) && n <= i+aheadLists; n++ {
		p := &progress{}
		r.progress = append(r.progress, p)
		readers.Go(func() {
			err := r.read(ctx, n, p)
			r.mu.Lock()
			defer r.mu.Unlock()
			p.done, p.err = true, err
			r.changed.Broadcast()
		})
	}
	r.changed.Broadcast()
}

// next waits for the next page of list i. After the last one it returns nil and the error that ended the
// list.
func (r *Reader) next(ctx context.Context, i int) (*Page, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress[i]
	for len(p.queue) == 0 && !p.done && ctx.Err() == nil {
		r.changed.Wait()
	}
	if len(p.queue) == 0 {
		return nil, p.err
	}
	page := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	r.changed.Broadcast()
	return page, nil
}

// read reads all pages of list i.
func (r *Reader) read(ctx context.Context, i int, p *progress) error {
	l, limit, token, expected := &r.lists[i], r.pageSize, "", 0
	expired, restarts := 0, 0 // since the last page; from the beginning of the list
	defer func() { r.expect(-expected) }()
	for {
		buf, err := r.admit(ctx, i, p)
		if err != nil {
			return err
		}
		buf, err = r.request(ctx, l, limit, token, buf)
		var got item.List
		if err == nil {
			got, err = item.SplitList(buf)
		}
		r.finish(p, l, got.Items, buf, err)
		switch {
		case errors.Is(err, kubeapi.ErrTooLarge) && limit != 1:
			limit = max(1, cmp.Or(max(0, limit), maxUnpaged)/4)
			continue
		case apierrors.IsResourceExpired(err) && token != "" && max(restarts, expired) < maxRestarts:
			// The snapshot of the pages has expired. Continue in a newer one if the server offers that, otherwise from
			// the beginning: the backup skips objects that it already has.
			if token = freshToken(err); token == "" {
				restarts++
			}
			expired++
			continue
		case err != nil:
			return err
		}
		expired = 0
		remaining := int(got.Remaining)
		r.expect(len(got.Items) + remaining - expected)
		expected = remaining
		if token = got.Continue; token == "" {
			return nil
		}
	}
}

// request reads one page of at most limit objects into buf, or the whole list if there is no limit.
func (r *Reader) request(ctx context.Context, l *List, limit int, token string, buf []byte) ([]byte, error) {
	request := kubeapi.Request{
		Resource: l.Resource.GroupVersionResource(), Namespace: l.Namespace,
		Query: url.Values{}, Buffer: buf,
	}
	if limit > 0 {
		request.Query.Set("limit", strconv.Itoa(limit))
	}
	if limit > 1 {
		request.MaxReply = maxPage
	}
	if l.Selector != "" {
		request.Query.Set("labelSelector", l.Selector)
	}
	if token != "" {
		request.Query.Set("continue", token)
	}
	reply, err := r.client.Do(ctx, request)
	return reply.Body, err
}

// freshToken returns the token with which an expired list continues in a newer snapshot.
func freshToken(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// admit waits until the next page of list i may be requested, and returns a buffer for it.
func (r *Reader) admit(ctx context.Context, i int, p *progress) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ctx.Err() == nil {
		itsTurn := i == r.turn && len(p.queue) == 0
		if r.requests < parallelLists && (itsTurn || r.bytes < aheadBytes) {
			break
		}
		r.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.requests++
	if n := len(r.spare); n > 0 {
		buf := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return buf, nil
	}
	return make([]byte, 0, 64<<10), nil
}

// finish ends a request that admit allowed and queues its page if there is one.
func (r *Reader) finish(p *progress, l *List, objects [][]byte, raw []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests--
	if err != nil || len(objects) == 0 {
		r.recycle(raw)
	} else {
		r.bytes += len(raw)
		page := &Page{List: l, Objects: objects}
		page.free = func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.bytes -= len(raw)
			r.recycle(raw)
			r.changed.Broadcast()
		}
		p.queue = append(p.queue, page)
	}
	r.changed.Broadcast()
}

// recycle keeps a buffer for the next page, unless it is unusually large or there are enough.
func (r *Reader) recycle(buf []byte) {
	if cap(buf) <= aheadBytes/parallelLists && len(r.spare) < parallelLists {
		r.spare = append(r.spare, buf[:0])
	}
}

func (r *Reader) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}
