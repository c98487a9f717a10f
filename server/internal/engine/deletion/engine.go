package deletion

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
)

// Deps are the parts of the server that all deletions share.
type Deps struct {
	// Resources returns the resources of the API server, by which the names in the actions' selectors are resolved.
	Resources func(context.Context) (*discovery.Snapshot, error)
	// CSI enables actions that need the feature EnableCSI.
	CSI bool
	// Roles are those of the actions.
	Roles operation.Roles
}

// Request describes the deletion of one backup.
type Request struct {
	// Backup that is deleted. It is read only.
	Backup *velerov1.Backup
	// Actions of plugins, in the order in which they are called.
	Actions []deleteitemaction.Action
	// Open opens the archive of the backup. It is called only if there are actions, and returns nil if the backup has no
	// archive.
	Open func(ctx context.Context) (*archive.Archive, error)
	// MayCall, unless nil, reports whether the actions may be called, when the archive is open. If not, Held is told for
	// how many items there would be calls, if any, and which is the first.
	MayCall func() bool
	Held    func(items int, first string)
	// Log is the log of the server.
	Log hclog.Logger
}

// Run calls the actions for the items in the archive to which they apply, one after the other. An action that fails
// does not keep the others, and the other items, from their calls. Run returns Failures if an action failed for an
// item. It returns another error if the items could not be read at all, or if an action cannot say what it applies to.
//
// A deletion that did not succeed is repeated from the start, so actions may see an item again.
func Run(ctx context.Context, deps Deps, req Request) error {
	if len(req.Actions) == 0 {
		return nil
	}
	actions, resources, err := resolve(ctx, deps, req)
	if err != nil {
		return err
	}
	backup, err := json.Marshal(req.Backup)
	if err != nil {
		return fmt.Errorf("encode the backup for plugins: %w", err)
	}
	items, err := req.Open(ctx)
	if err != nil {
		return fmt.Errorf("read the items for which plugins have to be called: %w", err)
	}
	if items == nil {
		req.Log.Info("the backup has no archive, so no item to call plugins for")
		return nil
	}
	defer func() {
		if err := items.Close(); err != nil {
			req.Log.Warn("could not remove the unpacked archive", "error", err)
		}
	}()
	d := &deletion{req: req, actions: actions, resources: resources, archive: items, backup: backup,
		hold: req.MayCall != nil && !req.MayCall()}
	req.Log.Info("calling delete item actions", "actions", len(req.Actions), "items", items.Len())
	for _, gr := range items.Resources() {
		if err := d.resource(ctx, gr); err != nil {
			return err
		}
	}
	if d.held > 0 {
		req.Held(d.held, d.firstHeld)
		req.Log.Warn("delete item actions were not called, because nothing proves that the items are those of the backup",
			"items", d.held)
		return nil
	}
	req.Log.Info("called delete item actions", "calls", d.calls, "failed", d.failures.Count)
	if d.failures.Count > 0 {
		return &d.failures
	}
	return nil
}

func resolve(
	ctx context.Context, deps Deps, req Request,
) (*itemaction.Set[deleteitemaction.Action], *discovery.Snapshot, error) {
	snapshot, err := deps.Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	actions, err := itemaction.NewSet(ctx, req.Actions, deps.CSI, deps.Roles, req.Log)
	if err != nil {
		return nil, nil, err
	}
	return actions, snapshot, actions.Resolve(snapshot)
}

// deletion is the state of one run.
type deletion struct {
	req       Request
	actions   *itemaction.Set[deleteitemaction.Action]
	resources *discovery.Snapshot
	archive   *archive.Archive
	backup    []byte // for plugins
	calls     int
	failures  Failures

	hold      bool // count the items, and call no actions
	held      int
	firstHeld string
}

// resource calls the actions for the items of a resource. It returns an error if ctx ends.
func (d *deletion) resource(ctx context.Context, gr schema.GroupResource) error {
	for entry := range d.archive.Items(gr) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d.item(ctx, entry)
	}
	return nil
}

// item calls the actions for an item. The item is read when the first one may apply to it. No action is called for an
// object that is not the one that its path names: it would delete something else.
func (d *deletion) item(ctx context.Context, entry archive.Entry) {
	var raw []byte
	var meta item.Meta
	var err error
	read := func() map[string]string {
		if raw == nil && err == nil {
			if raw, err = d.archive.Read(entry); err == nil {
				meta, err = d.metaOf(entry, raw)
			}
		}
		return meta.Labels
	}
	for action := range d.actions.For(entry.GroupResource, entry.Namespace, read) {
		if d.hold {
			if d.held++; d.held == 1 {
				d.firstHeld = identify(entry).String()
			}
			return
		}
		if read(); err != nil {
			break
		}
		d.calls++
		if failed := action.Execute(ctx, raw, d.backup); failed != nil {
			d.fail(entry, failed)
		}
	}
	if err != nil {
		d.fail(entry, err)
	}
}

// metaOf returns the metadata of an object that is the one that its path names.
func (d *deletion) metaOf(entry archive.Entry, raw []byte) (item.Meta, error) {
	meta, err := item.ParseForeign(raw)
	if err == nil {
		err = entry.Check(meta)
	}
	if err != nil {
		return item.Meta{}, err
	}
	kind := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind).GroupKind()
	return meta, d.resources.CheckKind(entry.GroupResource, kind, entry.Namespace != "")
}

// fail records the failure of an item, unless the run is ending.
func (d *deletion) fail(entry archive.Entry, err error) {
	id := identify(entry)
	d.req.Log.Error("delete item action failed", "item", id.String(), "error", err)
	d.failures.add(fmt.Errorf("%s: %w", id, err))
}

func identify(entry archive.Entry) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{
		Group: entry.GroupResource.Group, Resource: entry.GroupResource.Resource, Namespace: entry.Namespace,
		Name: entry.Name,
	}
}
