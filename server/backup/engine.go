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

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/resourcepolicy"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// Deps is what all backups share.
type Deps struct {
	// Config reaches the API server. Its rate limits apply to each run by itself.
	Config *rest.Config
	// Discovery knows the API server's resources.
	Discovery *discovery.Helper
	// PageSize is the number of objects to ask for in one request; 0 means 500.
	PageSize int
	// Workers is the number of item blocks that are backed up at the same time; 0 means 1.
	Workers int
	// RetryFor is how long requests are repeated while the API server is away or overloaded; 0 means
	// two minutes.
	RetryFor time.Duration
	// CSI is whether the feature EnableCSI is on. Without it actions named "velero.io/csi-..." are
	// not called.
	CSI bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Request is one backup.
type Request struct {
	// Backup with its spec defaulted and validated. It is read only.
	Backup *velerov1.Backup
	// Actions of plugins, in the order in which they are called.
	Actions []backupitemaction.Action
	// Policy is the resource policy that the spec refers to; nil if it refers to none.
	Policy *resourcepolicy.Policy
	// Log is the log of the backup.
	Log hclog.Logger
	// Progress, unless nil, is told the number of objects in the archive and the number known so far,
	// for each object and from several goroutines: the caller throttles.
	Progress func(done, total int)
}

// Result is what came of a backup. Errors of single objects are in Results only.
type Result struct {
	// Items is the number of objects in the archive.
	Items int
	// ResourceList maps "apiVersion/Kind" to the sorted "namespace/name" or "name" of its objects.
	ResourceList map[string][]string
	// Results are the errors and warnings; Errors and Warnings count them.
	Results          results.Results
	Errors, Warnings int
	// Operations are the asynchronous operations that actions started. Nobody has asked after them yet.
	Operations []Operation
}

// Operation is an asynchronous operation that an action started for an object.
type Operation struct {
	Action             string // name of the plugin
	ID                 string
	Item               framework.ResourceIdentifier
	PostOperationItems []framework.ResourceIdentifier
	Created            time.Time
}

// Run takes a backup and writes its archive to w, as a stream. Whatever makes the archive as a whole
// unusable is an error: the sink fails, the spec cannot be understood, an action cannot say what it
// applies to, the API server does not even list its namespaces, ctx ends. What concerns single objects
// or single lists is in the result and does not stop the backup. The result is never nil.
func Run(ctx context.Context, deps Deps, req Request, w io.Writer) (*Result, error) {
	e := &engine{deps: deps, req: req, log: req.Log, now: deps.Now}
	if e.now == nil {
		e.now = time.Now
	}
	e.record = newRecord(req.Progress)
	err := e.run(ctx, w)
	return e.record.result(), err
}

// engine is one run.
type engine struct {
	deps Deps
	req  Request
	log  hclog.Logger
	now  func() time.Time

	client     *client
	sel        *selection
	actions    []action
	backupJSON []byte
	archive    *archive.Writer
	seen       seen
	buffers    scratch
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
	// A failing sink ends the reading through ctx: then its error is the one that tells what happened.
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
	if e.client, err = newClient(e.deps.Config, e.log, retryFor, e.now); err != nil {
		return err
	}
	var snapshot *discovery.Snapshot
	err = e.client.retry(ctx, "discover resources", func(ctx context.Context) (err error) {
		snapshot, err = e.deps.Discovery.Refresh(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if e.sel, err = e.newSelection(ctx, snapshot); err != nil {
		return err
	}
	if e.actions, err = e.resolveActions(ctx); err != nil {
		return err
	}
	if e.backupJSON, err = json.Marshal(e.req.Backup); err != nil {
		return fmt.Errorf("encode the backup for plugins: %w", err)
	}
	return nil
}

// collect backs up the objects of all lists but the namespaces.
func (e *engine) collect(ctx context.Context, cancel context.CancelCauseFunc) error {
	lists := plan(e.sel)
	e.log.Info("collecting objects", "lists", len(lists))
	reader := newPages(e.client, pageSize(e.deps), lists, e.record.expect)
	workers := newWorkers(max(1, e.deps.Workers), func(b block) {
		defer b.done()
		if err := e.block(ctx, b); err != nil {
			cancel(err)
		}
	})
	begun := func(l *list) error {
		if l.first {
			return e.ordered(ctx, l.resource, workers)
		}
		return nil
	}
	consume := func(p *page) error {
		for _, raw := range p.items {
			p.hold()
			workers.add(block{items: []object{{resource: p.list.resource, raw: raw, listed: true}}, done: p.release})
		}
		return context.Cause(ctx)
	}
	err := reader.each(ctx, begun, consume, e.listFailed)
	workers.wait()
	return cmp.Or(context.Cause(ctx), err)
}

func pageSize(deps Deps) int { return cmp.Or(deps.PageSize, 500) }
