package hook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

// Restores runs the hooks of all restores of a server, also after the run of a restore has ended. It is safe for
// concurrent use.
type Restores struct {
	executor *Executor
	grace    time.Duration
	server   context.Context // ends when the server is to stop: no command begins after that
	stop     context.CancelCauseFunc
	life     context.Context // ends when the commands must end
	kill     context.CancelCauseFunc

	mu      sync.Mutex
	running map[types.UID]*Restore
}

// errStopped is the reason of hooks that end because the server stops. The next server continues them.
var errStopped = errors.New("the server was stopped")

// NewRestores returns an empty set. Commands may continue for grace after the server is asked to stop; they end at once
// when lost ends.
func NewRestores(lost context.Context, executor *Executor, grace time.Duration) *Restores {
	all := &Restores{executor: executor, grace: grace, running: map[types.UID]*Restore{}}
	all.server, all.stop = context.WithCancelCause(context.WithoutCancel(lost))
	all.life, all.kill = context.WithCancelCause(lost)
	return all
}

// Start implements manager.Runnable: it waits until ctx ends, and then for the commands.
func (all *Restores) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-all.life.Done():
	}
	all.stop(errStopped)
	timer := time.AfterFunc(all.grace, func() { all.kill(errStopped) })
	defer timer.Stop()
	all.mu.Lock()
	running := slices.Collect(maps.Values(all.running))
	all.mu.Unlock()
	for _, r := range running {
		r.await()
	}
	return nil // running restores may still add pods, which they mark for the next server
}

// stopped reports whether the server stops, so that the next server records the results of hooks.
func (all *Restores) stopped() bool { return all.server.Err() != nil || all.life.Err() != nil }

// Begin returns the hooks of a restore, which may be running already. open opens their log.
func (all *Restores) Begin(restore *velerov1.Restore, open func() (*runlog.Log, error)) (*Restore, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if r := all.running[restore.UID]; r != nil {
		return r, nil
	}
	r, err := newRestore(all, restore, open)
	if err == nil {
		all.running[restore.UID] = r
	}
	return r, err
}

// Of returns the hooks of a restore, or nil if there are none.
func (all *Restores) Of(uid types.UID) *Restore {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.running[uid]
}

// Resume continues the hooks of a restore whose run has ended under another server.
func (all *Restores) Resume(
	ctx context.Context, restore *velerov1.Restore, open func() (*runlog.Log, error),
) (*Restore, error) {
	pods, err := all.restored(ctx, restore, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) { // the server may lack the permission for some namespaces
		pods, err = all.restoredInEach(ctx, restore)
	}
	if err != nil {
		return nil, fmt.Errorf("list the restored pods: %w", err)
	}
	r, err := all.Begin(restore, open)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		r.Add(pod)
	}
	if status := restore.Status.HookStatus; status != nil {
		r.missing(status.HooksAttempted)
	}
	r.Close()
	return r, nil
}

// restored returns the pods in a namespace whose hooks a restore runs.
func (all *Restores) restored(ctx context.Context, restore *velerov1.Restore, namespace string) ([]Pod, error) {
	var pods []Pod
	options := metav1.ListOptions{LabelSelector: labelOf(restore), Limit: 500}
	for {
		page, err := all.executor.pods.Pods(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if IsMarked(page.Items[i].Annotations, restore.UID) {
				pods = append(pods, fromCluster(&page.Items[i]))
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return pods, nil
		}
	}
}

// restoredInEach is restored for each namespace that the server may access.
func (all *Restores) restoredInEach(ctx context.Context, restore *velerov1.Restore) ([]Pod, error) {
	list, err := all.executor.pods.Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for i := range list.Items {
		more, err := all.restored(ctx, restore, list.Items[i].Name)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		pods = append(pods, more...)
	}
	return pods, nil
}

// missing records hooks as failed if their pods no longer exist; wanted is the number of all hooks of the restore.
func (r *Restore) missing(wanted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := wanted - r.counts.HooksAttempted; n > 0 {
		r.counts.HooksAttempted += n
		r.counts.HooksFailed += n
		r.failures.AddVelero(fmt.Sprintf("%d hooks: their pods were deleted, or not marked yet, when the server was "+
			"stopped; it is unknown whether they were run", n))
	}
}

// Outcome returns the result of the hooks of a restore, and false if they have not ended.
func (all *Restores) Outcome(r *Restore) (Outcome, bool) {
	outcome, ended := r.outcome()
	return outcome, ended && !all.stopped()
}

// Forget ends all hooks of a restore and removes their records.
func (all *Restores) Forget(uid types.UID) error {
	all.mu.Lock()
	r := all.running[uid]
	delete(all.running, uid)
	all.mu.Unlock()
	if r == nil {
		return nil
	}
	r.Abort(errStopped)
	return r.CloseLog()
}
