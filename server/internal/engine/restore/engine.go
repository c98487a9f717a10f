package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/ready"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/volume"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/gaps"
	"github.com/cleat-dev/cleat/server/internal/spec/modifiers"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// Request describes one restore.
type Request struct {
	// Restore is the restore with spec.backupName resolved. It is read only.
	Restore *velerov1.Restore
	// Archive is the archive of the backup. Run does not close it.
	Archive *archive.Archive
	// Actions of plugins, in the order in which they are called.
	Actions []restoreitemaction.Action
	// Journal records the operations that actions start; nil records nothing.
	Journal *operation.Journal
	// Followed gets each operation after its start; nil if none is followed yet.
	Followed *operation.Group
	// Modifiers are the rules to which spec.resourceModifier refers; nil without a reference.
	Modifiers *modifiers.Rules
	// Rules are the filters of the policy to which spec.resourcePolicy refers.
	Rules filter.RuleLists
	// Graph yields the dependencies of the objects for which wanted returns true, and may yield others; nil if they are
	// not known. An error ends it.
	Graph func(wanted func(archive.Entry) bool) iter.Seq2[*manifest.Item, error]
	// Versions are the versions that the user prefers, by resource, if the archive has several versions of each
	// object.
	Versions plan.VersionPriorities
	// Volumes are the volumes whose data is in the backup, beside the archive.
	Volumes []*volume.Volume
	// Snapshots makes volumes of snapshots.
	Snapshots Snapshots
	// DryRun, unless nil, makes the restore a dry run. Nothing in the cluster changes.
	DryRun *DryRun
	// Enclose, unless nil, decides what becomes of each item, so that the restore acts on nothing outside of the
	// namespaces into which it restores. These must exist.
	Enclose func(enclosure.Item) (enclosure.Decision, error)
	// Hooks, unless nil, runs the hooks of the created pods.
	Hooks Hooks
	// Slot is left while the restore waits and none of its items is at work; nil for none.
	Slot Slot
	// Begun, unless nil, is called with the scope of the restore before its first write.
	Begun func(Scope)
	// Account, unless nil, gets what becomes of each item.
	Account *Account
	// Resumed is set if a former attempt was interrupted: objects that it has created are not changed.
	Resumed bool
	// Log is the log of the restore.
	Log hclog.Logger
	// Progress, unless nil, is called with the number of finished items and the number known so far, after
	// every item and by one goroutine at a time. It must not block.
	Progress func(done, total int)
}

// Hooks runs the hooks of restored pods in the background. Add does not block.
type Hooks interface{ Add(pod hook.Pod) }

// Snapshots has the parts that make volumes of snapshots. A restore of a backup without snapshots does not need them.
type Snapshots struct {
	Open    volumes.Open
	Records *volumes.Records
}

// Run restores a backup. Problems with single items are in the result and do not stop the restore. It returns an error
// if the restore stops: for invalid filters, an action that does not return its selector, an API server that is
// unavailable for longer than Options.OutageTimeout, or the end of ctx. The result then contains the work done before.
//
// Running the same restore again is harmless: existing unchanged objects are skipped.
func Run(ctx context.Context, deps Deps, req Request) (*Result, error) {
	options := deps.Options.withDefaults()
	e := &engine{
		options:      options,
		roles:        deps.Roles,
		log:          req.Log,
		restore:      req.Restore,
		backupLabel:  velerov1.ValidLabelValue(req.Restore.Spec.BackupName),
		restoreLabel: velerov1.ValidLabelValue(req.Restore.Name),
		resumed:      req.Resumed,
		dry:          newDryRun(req.DryRun),
		enclose:      req.Enclose,
		hooks:        req.Hooks,
		archive:      req.Archive,
		modifiers:    req.Modifiers,
		graph:        req.Graph,
		versions:     req.Versions,
		volumes:      volume.NewIndex(req.Volumes),
		snapshots:    req.Snapshots,
		tracker:      newTracker(),
		account:      req.Account,
		pool:         newPool(options.Workers, req.Slot),
		owners:       newOwners(req.Restore, req.Enclose != nil),
		operations:   itemaction.NewOperations(req.Journal, req.Followed, time.Now),
		waiter:       ready.NewWaiter(options.PollInterval, options.PollInterval),
		objects:      ready.NewWaiter(firstPause, options.PollInterval),
		gates:        newAllowance(options.ResourceTimeout),
		terminating:  newAllowance(options.TerminatingTimeout),
		state:        newState(req.Progress),
	}
	if e.account == nil {
		e.account = NewAccount(nil)
	}
	err := e.run(ctx, deps, req)
	made := e.fromSnapshots(req.Volumes)
	result := e.result()
	result.FromSnapshots = made
	return result, err
}

func (e *engine) run(ctx context.Context, deps Deps, req Request) error {
	if err := e.prepare(ctx, deps, req); err != nil {
		return err
	}
	if !e.archive.HasResources() {
		e.results.RunWarning(`the backup holds no objects: its archive has no folder "resources"`)
		return nil
	}
	if req.Begun != nil {
		req.Begun(e.scope())
	}
	if err := e.listNamespaces(ctx); err != nil {
		return err
	}
	if err := e.findServerParts(ctx); err != nil {
		return err
	}
	if err := e.restoreItems(ctx, deps.Discovery); err != nil {
		return err
	}
	if err := e.restoreOwners(ctx); err != nil {
		return err
	}
	if err := e.reportVanished(ctx); err != nil {
		return err
	}
	e.warnOfIdle()
	return nil
}

// prepare resolves all settings that are fixed for the whole run.
func (e *engine) prepare(ctx context.Context, deps Deps, req Request) (err error) {
	config := rest.CopyConfig(deps.Config)
	config.QPS, config.RateLimiter = -1, nil // the number of workers limits the requests
	config.Wrap(e.pool.active.Watch)
	if e.dry != nil {
		config.Wrap(kubeapi.DryRun)
	}
	if e.enclose != nil {
		config.Wrap(kubeapi.DryRunMarked)
	}
	if e.api, err = kubeapi.New(config, e.log, e.options.OutageTimeout); err != nil {
		return err
	}
	e.api.Stalled = e.stalled
	if e.restoreJSON, err = json.Marshal(e.restore); err != nil {
		return fmt.Errorf("encode the restore for plugins: %w", err)
	}
	if e.restoreJSON, err = deps.Keys.ForPlugins(ctx, "Restore", e.restore.UID, e.restoreJSON); err != nil {
		return err
	}
	e.warnOfGaps(gaps.Restore())
	snapshot, err := e.discover(ctx, deps.Discovery)
	if err != nil {
		return err
	}
	if e.selection, err = plan.NewSelection(e.restore, req.Rules, e.archive, snapshot); err != nil {
		return err
	}
	if e.actions, err = itemaction.NewSet(ctx, req.Actions, e.options.EnableCSI, e.roles, e.log); err != nil {
		return err
	}
	if err := e.readDefinitions(); err != nil {
		return err
	}
	if err := e.use(snapshot); err != nil {
		return err
	}
	return e.resolveRest(ctx, deps.Discovery)
}

// resolveRest reads the resources of the cluster again if a name in the spec is unknown.
func (e *engine) resolveRest(ctx context.Context, helper *discovery.Helper) error {
	unresolved := e.selection.Unresolved()
	if len(unresolved) == 0 {
		return nil
	}
	snapshot, err := e.discover(ctx, helper, unresolved...)
	if err != nil {
		return err
	}
	return e.use(snapshot)
}

// warnOfGaps records warnings about requests of the spec that the server does not support.
func (e *engine) warnOfGaps(list []gaps.Gap[velerov1.RestoreSpec]) {
	for _, warning := range gaps.Warnings(list, &e.restore.Spec) {
		e.warn(warning)
		e.state.gaps = append(e.state.gaps, warning) // before the first worker starts
	}
}

// use resolves filters and actions against the resources of the cluster, which include those that the restore defines.
func (e *engine) use(snapshot *discovery.Snapshot) error {
	snapshot = snapshot.With(e.definitions.resources...)
	e.snapshot.Store(snapshot)
	return errors.Join(e.selection.Resolve(snapshot), e.actions.Resolve(snapshot))
}

// discover returns the resources that the API server serves now. If names cannot be resolved, it waits a moment,
// because a definition may have just been installed. A discovery helper does not repeat requests itself.
func (e *engine) discover(
	ctx context.Context, helper *discovery.Helper, names ...string,
) (snapshot *discovery.Snapshot, err error) {
	err = e.api.Retry(ctx, "discovery", func(ctx context.Context) (err error) {
		snapshot, err = helper.SnapshotWith(ctx, names)
		return err
	})
	return snapshot, err
}

// restoreItems plans the restore of all items, and restores them.
func (e *engine) restoreItems(ctx context.Context, helper *discovery.Helper) error {
	for _, warning := range e.selection.Warnings() {
		e.warn("spec.resourcePolicy: " + warning)
	}
	for _, warning := range e.selection.Unmatched() {
		e.warn(warning)
	}
	e.logUnknownVersions()
	for _, gr := range e.archive.Resources() {
		e.chooseVersion(gr)
	}
	planned, err := e.plan()
	if err != nil {
		return err
	}
	if err := e.restoreInOrder(ctx, helper, planned); err != nil {
		return err
	}
	return e.askAgain(ctx, planned)
}

// warnOfIdle records settings of the spec for objects of the backup that have matched no object.
func (e *engine) warnOfIdle() {
	e.warnOfReferences()
	for _, warning := range e.selection.UnmatchedSelectors() {
		e.warn(warning)
	}
	for _, warning := range e.modifiers.Unmatched() {
		e.warn("spec.resourceModifier: " + warning)
	}
}

// warn records a warning about the restore as a whole.
func (e *engine) warn(text string) {
	e.log.Warn(text)
	e.results.RunWarning(text)
}
