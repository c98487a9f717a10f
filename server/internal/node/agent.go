package node

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
)

// Soothing decides whether a New load may be Accepted.
type Soothing interface {
	Admit(ctx context.Context, request *loadsoothing.Request) (policy.Outcome[*loadsoothing.Decision], error)
}

// Agent is the agent of one node.
type Agent struct {
	*run.Cluster
	Node     string
	Identity string // of this process
	HostPods string // the kubelet's directory of pods
	// Namespaces are the namespaces whose volumes may be opened; empty means all.
	Namespaces []string
	Limit      int // how many loads are moved at once
	// QueueLength is how many loads may be Accepted or Prepared at once, for the policy; 0 if that is not configured.
	QueueLength int
	Soothing    Soothing // nil admits every load at once
	// Describe reports whether the policy needs the storage class and the size of each volume, even if the load does
	// not state them.
	Describe     bool
	Signing      *signing.Keys // verify the statuses that other agents have written
	Movers       Movers
	Keys         Keys
	Repositories Repositories
	Exposers     map[string]Exposer // by the name of the kind; a kind without one is exposed by another component
	// Pods move the data of each load in a pod of its own; nil has it moved by children of this process.
	Pods *loadpod.Pods
	// PrepareTimeout is the longest time for which a load is Accepted.
	PrepareTimeout time.Duration
	// StoreOutage is how long a load waits for a storage that does not answer; 0 for not at all.
	StoreOutage time.Duration
	Metrics     *Metrics             // nil for none
	Events      events.EventRecorder // nil for none
	Log         hclog.Logger
	Now         func() time.Time

	life      context.Context // of the process
	kinds     []*kind
	admission *admission
	slots     *slots
	others    others
	proofs    proofs
}

// workers is the number of loads of one kind that are reconciled at once. A reconciliation never waits for data.
const workers = 2

// AddTo adds the agent to a manager. The cache of the manager has to hold the loads and the ledger of one namespace
// and the pods of one node.
func (a *Agent) AddTo(ctx context.Context, mgr ctrl.Manager, build func(name string, workers int) *ctrl.Builder) error {
	a.life = ctx
	a.kinds = kinds()
	a.slots = newSlots(a.Limit)
	a.admission = newAdmission(a)
	if err := mgr.Add(a.admission); err != nil {
		return err
	}
	again := make(map[string]chan event.GenericEvent, len(a.kinds))
	for _, k := range a.kinds {
		again[k.name] = make(chan event.GenericEvent, 1024)
		m := &machine{Agent: a, kind: k}
		err := build("node-agent-"+k.name, workers).
			For(k.object()).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(m.ofPod)).
			WatchesRawSource(source.Channel(again[k.name], &handler.EnqueueRequestForObject{})).
			Complete(m)
		if err != nil {
			return fmt.Errorf("set up the loads of kind %s: %w", k.name, err)
		}
		if err := a.admission.watch(ctx, mgr, k.object()); err != nil {
			return err
		}
	}
	reports := &signals{a}
	if err := build("node-agent-signals", 1).For(&corev1.Pod{}).
		Watches(&velerov1.PodVolumeRestore{}, handler.EnqueueRequestsFromMapFunc(reports.ofLoad)).
		Complete(reports); err != nil {
		return fmt.Errorf("set up the reports to restored pods: %w", err)
	}
	a.slots.wake = func(kind string, object client.Object) {
		select {
		case again[kind] <- event.GenericEvent{Object: object}:
		case <-ctx.Done():
		}
	}
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}} {
		if err := a.admission.watch(ctx, mgr, object); err != nil {
			return err
		}
	}
	return nil
}

// loads returns all loads of a kind in the cache. The caller must not change them.
func (a *Agent) loads(ctx context.Context, k *kind) ([]*load, error) {
	list := k.list()
	if err := a.List(ctx, list, client.InNamespace(a.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	all := make([]*load, 0, meta.LenList(list))
	err := meta.EachListItem(list, func(object runtime.Object) error {
		o, ok := object.(client.Object)
		if !ok {
			return nil
		}
		l := newLoad(k, o)
		all = append(all, l)
		if l.status.Phase.Terminal() {
			return nil // there are many, and the agent does nothing for them
		}
		return a.prove(ctx, l)
	})
	return all, err
}
