package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/backup/pages"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/server/kubeapi"
	"github.com/cleat-dev/cleat/server/resourcepolicy"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// Deps are the parts of the server that all backups share.
type Deps struct {
	// Config reaches the API server. Its rate limits apply to each run separately.
	Config *rest.Config
	// Discovery knows the resources of the API server.
	Discovery *discovery.Helper
	// PageSize is the number of objects to request at once; 0 means 500, and a negative number whole lists.
	PageSize int
	// Workers is the number of blocks of objects that are backed up at the same time; 0 means 1.
	Workers int
	// RetryFor is how long requests are repeated while the API server is away or overloaded; 0 means
	// two minutes.
	RetryFor time.Duration
	// CSI enables actions that need the feature EnableCSI. Without it, actions named "velero.io/csi-..."
	// are not called.
	CSI bool
	// AllVersions (EnableAPIGroupVersions) backs up each object in all versions in which the API server serves it.
	AllVersions bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Request describes one backup.
type Request struct {
	// Backup with its spec defaulted and validated. It is read only.
	Backup *velerov1.Backup
	// Actions of plugins, in the order in which they are called.
	Actions []backupitemaction.Action
	// Policy is the resource policy that the spec refers to; nil if it refers to none.
	Policy *resourcepolicy.Policy
	// Log is the log of the backup.
	Log hclog.Logger
	// Progress, unless nil, is called with the number of objects in the archive and the number known so
	// far, for each object and from several goroutines. The caller throttles.
	Progress func(done, total int)
}

// Result is the outcome of a backup. Errors of single objects are in Results only.
type Result struct {
	// Items is the number of objects in the archive.
	Items int
	// ResourceList maps "apiVersion/Kind" to the sorted "namespace/name" or "name" of its objects.
	ResourceList map[string][]string
	// Results are the errors and warnings; Errors and Warnings count them.
	Results          results.Results
	Errors, Warnings int
	// Operations are the asynchronous operations that actions started.
	Operations []itemaction.Operation
	// Gaps are those of the warnings that name fields of the spec without effect; see package gaps.
	Gaps []string
}

// Run takes a backup and streams its archive to w. It returns an error for whatever makes the archive as a
// whole unusable: the sink fails, the spec is invalid, an action cannot say what it applies to, the API
// server does not list its namespaces, ctx ends. Problems with single objects or lists are in the result and
// do not stop the backup. The result is never nil.
func Run(ctx context.Context, deps Deps, req Request, w io.Writer) (*Result, error) {
	e := &engine{deps: deps, req: req, log: req.Log, now: deps.Now}
	if e.now == nil {
		e.now = time.Now
	}
	e.record = newRecord(req.Progress)
	err := e.run(ctx, w)
	return e.record.result(), err
}

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

func (e *engine) run(ctx context.Context, w io.Writer) (err error) {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	e.preflight()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if e.archive, err = archive.NewWriter(w, e.now()); err != nil {
		return err
	}
	err = e.collect(ctx, cancel)
	if err == nil {
		err = e.close(ctx)
	}
	// A failing sink ends the reading through ctx. Its error is then the one to report.
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		e.archive.Abort()
		return err
	}
	return e.archive.Close()
}

// prepare resolves everything that is fixed for the whole run.
func (e *engine) prepare(ctx context.Context) (err error) {
	retryFor := cmp.Or(e.deps.RetryFor, 2*time.Minute)
	if e.client, err = kubeapi.New(e.deps.Config, e.log, retryFor); err != nil {
		return err
	}
	var snapshot *discovery.Snapshot
	err = e.client.Retry(ctx, "discovery", func(ctx context.Context) (err error) {
		snapshot, err = e.deps.Discovery.Refresh(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if e.sel, err = e.newSelection(ctx, snapshot); err != nil {
		return err
	}
	if e.actions, err = itemaction.NewSet(ctx, e.req.Actions, e.deps.CSI, e.log); err != nil {
		return err
	}
	if err := e.actions.Resolve(snapshot); err != nil {
		return err
	}
	if e.backupJSON, err = json.Marshal(e.req.Backup); err != nil {
		return fmt.Errorf("encode the backup for plugins: %w", err)
	}
	return nil
}

// collect backs up the objects of all lists except the namespaces.
func (e *engine) collect(ctx context.Context, cancel context.CancelCauseFunc) error {
	lists := plan(e.sel, e.deps.AllVersions)
	e.log.Info("collecting objects", "lists", len(lists))
	reader := pages.NewReader(e.client, pageSize(e.deps), lists, e.record.expect)
	workers := newWorkers(max(1, e.deps.Workers), func(b block) {
		defer b.done()
		if err := e.block(ctx, b); err != nil {
			cancel(err)
		}
	})
	begun := func(l *pages.List) error {
		if l.First {
			return e.ordered(ctx, l.Resource, workers)
		}
		return nil
	}
	consume := func(p *pages.Page) error {
		for _, raw := range p.Objects {
			p.Hold()
			workers.add(block{objects: []object{{resource: p.List.Resource, raw: raw, listed: true}}, done: p.Release})
		}
		return context.Cause(ctx)
	}
	err := reader.Each(ctx, begun, consume, e.listFailed)
	workers.wait()
	return cmp.Or(context.Cause(ctx), err)
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
