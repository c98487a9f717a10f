package backup

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
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
	operations *itemaction.Operations

	parallel map[schema.GroupResource]bool // see concurrent
	turns    map[string]chan struct{}      // by action; see turn
	// orderedTurns are the turns of actions that take one call at a time, as many as there are ordered workers.
	orderedTurns chan struct{}

	hooks *hook.Backup   // nil if none are run
	later sync.WaitGroup // post hooks that wait for volumes

	blockActions *itemaction.Set[itemblockaction.Action]
	relatedBytes atomic.Int64 // of blocks that wait or are in progress

	backupJSON []byte // for plugins
	archive    itemWriter
	writes     sync.Mutex // by writers of the archive and the manifest
	dry        *dryRun    // nil for a real backup
	refreshing bool       // see Refresh
	seen       seen
	buffers    bufferPool
	record     *record
	volumes    *volumeState
}

// itemWriter receives the objects of a run.
type itemWriter interface {
	Item(gr schema.GroupResource, version string, preferred bool, namespace, name string, raw []byte) error
}

// get reads one object. namespace is empty for a cluster-scoped one.
func (e *engine) get(ctx context.Context, resource discovery.Resource, namespace, name string) ([]byte, error) {
	reply, err := e.client.Do(ctx, kubeapi.Request{Resource: resource.GroupVersionResource(), Namespace: namespace,
		Name: name})
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
