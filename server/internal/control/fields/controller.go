package fields

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// kind is a custom resource whose specs are looked at.
type kind struct {
	new func() client.Object
	// fixed is set for objects whose spec does not change after their creation.
	fixed bool
}

// kinds returns the kinds by their names.
func kinds() map[string]kind {
	return map[string]kind{
		"Schedule":               {new: func() client.Object { return new(velerov1.Schedule) }},
		"BackupStorageLocation":  {new: func() client.Object { return new(velerov1.BackupStorageLocation) }},
		"VolumeSnapshotLocation": {new: func() client.Object { return new(velerov1.VolumeSnapshotLocation) }},
		"BackupRepository":       {new: func() client.Object { return new(velerov1.BackupRepository) }},
		"DeleteBackupRequest":    {new: func() client.Object { return new(velerov1.DeleteBackupRequest) }, fixed: true},
		"DownloadRequest":        {new: func() client.Object { return new(velerov1.DownloadRequest) }, fixed: true},
		"ServerStatusRequest":    {new: func() client.Object { return new(velerov1.ServerStatusRequest) }, fixed: true},
	}
}

// Controller looks at the specs of custom resources when they are created, and when they change.
type Controller struct {
	*run.Cluster
	Events events.EventRecorder
	Log    hclog.Logger

	mu   sync.Mutex
	said map[types.UID]string // the warnings of the objects that have any
}

// Setup adds the watches of the controller to b. The namespace of a request is the kind of the object: all of them are
// in the namespace of the server.
func (c *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	for name, k := range kinds() {
		enqueue := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: name, Name: o.GetName()}}}
		})
		b = b.Watches(k.new(), enqueue, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return !k.fixed && e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
			},
			DeleteFunc: func(e event.DeleteEvent) bool {
				c.forget(e.Object.GetUID())
				return false
			},
		}))
	}
	return b
}

// Reconcile looks at one object.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	k, ok := kinds()[req.Namespace]
	if !ok {
		return ctrl.Result{}, nil
	}
	object := k.new()
	object.SetNamespace(c.Namespace)
	object.SetName(req.Name)
	raw, warnings, err := c.Raw(ctx, object)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !c.isNew(raw.GetUID(), strings.Join(warnings, "; ")) {
		return ctrl.Result{}, nil
	}
	for _, warning := range warnings {
		c.Log.Warn(warning, strings.ToLower(req.Namespace), fmt.Sprintf("%s/%s", c.Namespace, req.Name))
	}
	run.ReportGaps(c.Events, raw, "Read", warnings)
	return ctrl.Result{}, nil
}

// isNew reports whether an object has warnings other than those that were reported, and notes them.
func (c *Controller) isNew(uid types.UID, warnings string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said[uid] == warnings {
		return false
	}
	if warnings == "" {
		delete(c.said, uid)
		return false
	}
	if c.said == nil {
		c.said = map[types.UID]string{}
	}
	c.said[uid] = warnings
	return true
}

func (c *Controller) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.said, uid)
}
