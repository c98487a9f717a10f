package restore

import (
	"cmp"
	"time"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
)

// Deps are the parts of the server that a restore uses.
type Deps struct {
	Config    *rest.Config // of the target cluster; its rate limits are ignored
	Discovery *discovery.Helper
	Keys      *loadkey.Keys   // with which actions sign loads; nil for none
	Roles     operation.Roles // those of the actions
	Options   Options
}

// Options are the settings of a restore. The defaults for zero fields are given with each.
type Options struct {
	// Priorities is the order of resources; default plan.DefaultPriorities.
	Priorities plan.Priorities
	// Workers is the number of items that are restored at the same time; 0 for as many as are fastest, up to pace.Max.
	Workers int
	// ResourceTimeout limits the time of all waits together for objects that the restore has created to be ready, for
	// webhooks and aggregated APIs that fail, and for additional items that are not ready, if the plugin sets no limit;
	// default 10 minutes.
	ResourceTimeout time.Duration
	// TerminatingTimeout limits the time of all waits together for namespaces and volumes that are being deleted; default
	// 10 minutes.
	TerminatingTimeout time.Duration
	// PollInterval is the pause between two checks of a condition that the restore waits for; default 1 second.
	PollInterval time.Duration
	// OutageTimeout is how long requests are repeated while the API server is away or overloaded; default
	// 2 minutes.
	OutageTimeout time.Duration
	// FieldManager owns the fields of objects without a recorded owner; default "cleat".
	FieldManager string
	// Pod is the name of the pod in which the server runs, in the namespace of the Restore; empty if it runs outside a
	// pod. Objects that this pod uses are not updated.
	Pod string
	// EnableCSI enables actions that need the feature EnableCSI.
	EnableCSI bool
}

func (o Options) withDefaults() Options {
	if len(o.Priorities.High)+len(o.Priorities.Low) == 0 {
		o.Priorities = plan.DefaultPriorities()
	}
	o.ResourceTimeout = cmp.Or(o.ResourceTimeout, 10*time.Minute)
	o.TerminatingTimeout = cmp.Or(o.TerminatingTimeout, 10*time.Minute)
	o.PollInterval = cmp.Or(o.PollInterval, time.Second)
	o.OutageTimeout = cmp.Or(o.OutageTimeout, 2*time.Minute)
	o.FieldManager = cmp.Or(o.FieldManager, "cleat")
	return o
}
