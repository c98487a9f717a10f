package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/item"
	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/server/kubeapi"
	"github.com/cleat-dev/cleat/server/modifiers"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// Deps are the parts of the server that a restore uses.
type Deps struct {
	Config    *rest.Config // of the cluster that is restored into; its QPS is not looked at
	Discovery *discovery.Helper
	Options   Options
}

// Options tune a restore. Zero fields get the values that are named.
type Options struct {
	// Priorities is the order of resources; DefaultPriorities if it is empty.
	Priorities Priorities
	// Workers restore items of one resource at the same time; 16.
	Workers int
	// ResourceTimeout bounds the wait for a custom resource definition to be established, and for additional
	// items to be ready where the plugin does not say how long; 10 minutes.
	ResourceTimeout time.Duration
	// TerminatingTimeout bounds the wait for a namespace that is being deleted; 10 minutes.
	TerminatingTimeout time.Duration
	// PollInterval is the pause between two looks at what is waited for; 1 second.
	PollInterval time.Duration
	// OutageTimeout is how long the API server may be away, or refuse one request for now; 2 minutes.
	OutageTimeout time.Duration
	// FieldManager owns the fields of objects that had no recorded owner; "cleat".
	FieldManager string
	// EnableCSI lets actions run whose names hold "velero.io/csi-".
	EnableCSI bool
}

func (o Options) orDefaults() Options {
	if len(o.Priorities.High)+len(o.Priorities.Low) == 0 {
		o.Priorities = DefaultPriorities()
	}
	o.Workers = cmp.Or(max(o.Workers, 0), 16)
	o.ResourceTimeout = cmp.Or(o.ResourceTimeout, 10*time.Minute)
	o.TerminatingTimeout = cmp.Or(o.TerminatingTimeout, 10*time.Minute)
	o.PollInterval = cmp.Or(o.PollInterval, time.Second)
	o.OutageTimeout = cmp.Or(o.OutageTimeout, 2*time.Minute)
	o.FieldManager = cmp.Or(o.FieldManager, "cleat")
	return o
}

// Request is one restore.
type Request struct {
	// Restore as it was asked for, with spec.backupName resolved. It is read only.
	Restore *velerov1.Restore
	// Archive of the backup. It stays open.
	Archive *archive.Archive
	// Actions in the order in which they are run.
	Actions []restoreitemaction.Action
	// Modifiers are the rules that spec.resourceModifier refers to; nil if it refers to none.
	Modifiers *modifiers.Rules
	// Log of the restore.
	Log hclog.Logger
	// Progress is told the number of items dealt with and of those known so far, after every item and from
	// one goroutine at a time. It must return at once. May be nil.
	Progress func(done, total int)
}

// Result is what a restore did.
type Result struct {
	// ResourceList is by "apiVersion/Kind" the sorted list of "namespace/name(action)", where action is
	// created, updated, failed or skipped (Velero's resource list).
	ResourceList map[string][]string
	// Results are the messages, sorted.
	Results results.Results
	// Items is the number of entries in ResourceList.
	Items int
	// Operations that actions started, sorted.
	Operations []itemaction.Operation
}

// engine is one running restore.
type engine struct {
	options      Options
	api          *kubeapi.Client
	log          hclog.Logger
	restore      *velerov1.Restore
	restoreJSON  []byte // for plugins
	backupLabel  string
	restoreLabel string
	archive      *archive.Archive
	selection    *selection
	actions      *itemaction.Set[restoreitemaction.Action]
	modifiers    *modifiers.Rules
	snapshot     atomic.Pointer[discovery.Snapshot]
	tracker      *tracker
	namespaces   namespaces
	results      results.Collector

	mu          sync.Mutex
	progress    func(done, total int)
	done, total int
	fresh       map[schema.GroupResource]bool // custom resources that were defined by this restore
	provisioned map[string]bool               // persistent volumes that claims get anew
	reported    map[string]bool               // what is in the results already
	operations  []itemaction.Operation
}

// Run restores. What goes wrong with one item is in the result, and the others are restored all the same.
// An error ends the restore: filters that cannot be understood, an action that does not say what it
// applies to, an API server that is away for longer than Options.OutageTimeout, the end of ctx. The
// result then holds what was done until then.
//
// Running the same restore again is harmless: what is there and unchanged is skipped.
func Run(ctx context.Context, deps Deps, req Request) (*Result, error) {
	e := &engine{
		options:      deps.Options.orDefaults(),
		log:          req.Log,
		restore:      req.Restore,
		backupLabel:  velerov1.ValidLabelValue(req.Restore.Spec.BackupName),
		restoreLabel: velerov1.ValidLabelValue(req.Restore.Name),
		archive:      req.Archive,
		modifiers:    req.Modifiers,
		tracker:      newTracker(),
		progress:     req.Progress,
		fresh:        map[schema.GroupResource]bool{},
		provisioned:  map[string]bool{},
		reported:     map[string]bool{},
	}
	err := e.run(ctx, deps, req)
	return e.result(), err
}

func (e *engine) run(ctx context.Context, deps Deps, req Request) (err error) {
	// The pool of workers is the limit of the requests.
	config := rest.CopyConfig(deps.Config)
	config.QPS, config.RateLimiter = -1, nil
	if e.api, err = kubeapi.New(config, e.log, e.options.OutageTimeout); err != nil {
		return err
	}
	if e.restoreJSON, err = json.Marshal(e.restore); err != nil {
		return fmt.Errorf("encode the restore for plugins: %w", err)
	}
	for _, warning := range unsupported(&e.restore.Spec) {
		e.log.Warn(warning)
		e.results.RunWarning(warning)
	}
	snapshot, err := e.discover(ctx, deps.Discovery.Snapshot)
	if err != nil {
		return err
	}
	if e.selection, err = newSelection(&e.restore.Spec, e.archive, snapshot); err != nil {
		return err
	}
	if e.actions, err = itemaction.NewSet(ctx, req.Actions, e.options.EnableCSI, e.log); err != nil {
		return err
	}
	if err := e.use(snapshot); err != nil {
		return err
	}
	if !e.archive.HasResources() {
		e.results.RunWarning(`the backup holds no objects: its archive has no folder "resources"`)
		return nil
	}
	for _, name := range e.selection.namespaces.Missing() {
		e.results.RunWarning(fmt.Sprintf("namespace %s of includedNamespaces is not in the backup", name))
	}
	if err := e.listNamespaces(ctx); err != nil {
		return err
	}
	if err := e.restoreCRDs(ctx, deps.Discovery); err != nil {
		return err
	}
	return e.restoreRest(ctx)
}

// use takes over what the cluster serves.
func (e *engine) use(snapshot *discovery.Snapshot) error {
	e.snapshot.Store(snapshot)
	return errors.Join(e.selection.resolve(snapshot), e.actions.Resolve(snapshot))
}

// discover asks a discovery helper, which does not repeat requests itself.
func (e *engine) discover(ctx context.Context, ask func(context.Context) (*discovery.Snapshot, error)) (snapshot *discovery.Snapshot, err error) {
	err = e.api.Retry(ctx, "discovery", func(ctx context.Context) (err error) {
		snapshot, err = ask(ctx)
		return err
	})
	return snapshot, err
}

// restoreCRDs restores the custom resource definitions, so that the cluster serves what is restored next.
func (e *engine) restoreCRDs(ctx context.Context, helper *discovery.Helper) error {
	entries, err := e.collect(grCRDs)
	if err != nil || len(entries) == 0 {
		return err
	}
	e.expect(len(entries))
	if err := e.restoreAll(ctx, entries); err != nil {
		return err
	}
	if list, _ := e.tracker.resourceList(); !changed(list) {
		return nil
	}
	snapshot, err := e.discover(ctx, helper.Refresh)
	if err != nil {
		e.log.Warn("discovery after the restore of custom resource definitions failed", "error", err)
		e.results.RunWarning(fmt.Sprintf("after the restore of custom resource definitions: %v", err))
		return nil
	}
	return e.use(snapshot)
}

// changed says whether something was created or updated.
func changed(list map[string][]string) bool {
	for _, entries := range list {
		for _, entry := range entries {
			if hasAction(entry, actionCreated) || hasAction(entry, actionUpdated) {
				return true
			}
		}
	}
	return false
}

func hasAction(entry, action string) bool {
	suffix := "(" + action + ")"
	return len(entry) > len(suffix) && entry[len(entry)-len(suffix):] == suffix
}

// restoreRest restores all other resources, one after the other.
func (e *engine) restoreRest(ctx context.Context) error {
	ordered := e.options.Priorities.order(e.archive.Resources(), e.snapshot.Load())
	ordered = slices.DeleteFunc(ordered, func(gr schema.GroupResource) bool { return gr == grCRDs })
	levels := make([][]archive.Entry, len(ordered))
	for i, gr := range ordered {
		var err error
		if levels[i], err = e.collect(gr); err != nil {
			return err
		}
		e.expect(len(levels[i]))
	}
	for i, entries := range levels {
		if len(entries) == 0 {
			continue
		}
		start := time.Now()
		if err := e.restoreAll(ctx, entries); err != nil {
			return err
		}
		e.log.Info("restored a resource", "resource", ordered[i].String(), "items", len(entries), "seconds", time.Since(start).Seconds())
	}
	return nil
}

// collect lists the items of a resource that are restored.
func (e *engine) collect(gr schema.GroupResource) ([]archive.Entry, error) {
	if !e.selection.resource(gr) {
		e.log.Debug("resource is left out by the filters of the restore", "resource", gr.String())
		return nil, nil
	}
	var entries []archive.Entry
	for entry := range e.archive.Items(gr) {
		if !e.selection.selected(entry) {
			continue
		}
		if e.selection.byLabels(gr) {
			raw, err := e.archive.Read(entry)
			if err != nil {
				return nil, err
			}
			// What cannot be read is restored, and so reported.
			if meta, err := item.ParseMeta(raw); err == nil && !e.selection.matchesLabels(meta.Labels) {
				continue
			}
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// restoreAll restores items with a pool of workers, and returns when all are done.
func (e *engine) restoreAll(ctx context.Context, entries []archive.Entry) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(e.options.Workers, len(entries)) {
		group.Go(func() {
			w := &worker{}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(entries) {
					return
				}
				if _, err := e.restoreEntry(ctx, w, entries[i], false); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// result gathers what was done.
func (e *engine) result() *Result {
	list, n := e.tracker.resourceList()
	found := e.results.Results()
	sortMessages(&found.Errors)
	sortMessages(&found.Warnings)
	slices.SortFunc(e.operations, itemaction.Operation.Compare)
	return &Result{ResourceList: list, Results: found, Items: n, Operations: e.operations}
}

// sortMessages takes the chance of the workers out of the order.
func sortMessages(r *results.Result) {
	slices.Sort(r.Velero)
	slices.Sort(r.Cluster)
	for _, messages := range r.Namespaces {
		slices.Sort(messages)
	}
}

// expect counts items that are known now.
func (e *engine) expect(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total += n
	e.tellProgress()
}

// progressed counts an item that was dealt with, which may not have been expected.
func (e *engine) progressed(unexpected int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done++
	e.total += unexpected
	e.tellProgress()
}

func (e *engine) tellProgress() {
	if e.progress != nil {
		e.progress(e.done, e.total)
	}
}

// namespaceFailed reports a namespace that cannot be restored into, once.
func (e *engine) namespaceFailed(name string, err error) {
	if e.firstReport("namespace " + name) {
		e.log.Error("namespace cannot be restored into", "namespace", name, "error", err)
		e.results.RunError(fmt.Sprintf("error restoring namespace %s: %v", name, err))
	}
}

// firstReport says whether something is to be reported that others may come upon too.
func (e *engine) firstReport(what string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reported[what] {
		return false
	}
	e.reported[what] = true
	return true
}

func (e *engine) addFresh(gr schema.GroupResource) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fresh[gr] = true
}

func (e *engine) isFresh(gr schema.GroupResource) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fresh[gr]
}

func (e *engine) provision(volume string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.provisioned[volume] = true
}

func (e *engine) isProvisioned(volume string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.provisioned[volume]
}

func (e *engine) addOperation(op itemaction.Operation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.operations = append(e.operations, op)
}
