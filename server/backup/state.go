package backup

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/backup/pages"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/server/kubeapi"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// engine is the state of one run.
type engine struct {
	deps Deps
	req  Request
	log  hclog.Logger
	now  func() time.Time

	client     *kubeapi.Client
	sel        *selection
	actions    *itemaction.Set[backupitemaction.Action]
	backupJSON []byte // for plugins
	archive    *archive.Writer
	seen       seen
	buffers    bufferPool
	record     *record
}

// get reads one object. namespace is empty for a cluster-scoped one.
func (e *engine) get(ctx context.Context, resource discovery.Resource, namespace, name string) ([]byte, error) {
	reply, err := e.client.Do(ctx, kubeapi.Request{Resource: resource.GroupVersionResource(), Namespace: namespace, Name: name})
	return reply.Body, err
}

// eachOf calls use with every object of one list.
func (e *engine) eachOf(ctx context.Context, l pages.List, use func(raw []byte) error) error {
	var failure error
	reader := pages.NewReader(e.client, pageSize(e.deps), []pages.List{l}, func(int) {})
	err := reader.Each(ctx, func(*pages.List) error { return nil }, func(p *pages.Page) error {
		for _, raw := range p.Objects {
			if err := use(raw); err != nil {
				return err
			}
		}
		return nil
	}, func(_ *pages.List, err error) { failure = err })
	if err != nil {
		return err
	}
	return failure
}

func pageSize(deps Deps) int { return cmp.Or(deps.PageSize, 500) }

// bufferPool holds buffers for objects to which type information is added.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) get() *[]byte {
	if buf, ok := p.pool.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

func (p *bufferPool) put(buf *[]byte) {
	if cap(*buf) <= 1<<20 {
		p.pool.Put(buf)
	}
}
