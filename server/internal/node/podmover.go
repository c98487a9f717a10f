package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
)

const (
	// podPeriod is the time between two looks at the pod of an attempt, which is in the cache.
	podPeriod = 500 * time.Millisecond
	// cancelGrace is how many seconds the mover of a load that was cancelled gets to clean up.
	cancelGrace = 10
)

// moveInPod has a pod move the data, follows it, and returns how the attempt ends. If the pod exists, because an
// earlier process has created it, it is followed only. If ctx ends, the pod is stopped. If this process ends, the pod
// goes on.
func (a *Agent) moveInPod(ctx context.Context, l *load, from exposedVolume, t *transfer, again bool) outcome {
	order := &loadpod.Order{
		Kind: l.name, Name: l.GetName(), UID: string(l.GetUID()), Attempt: t.attempt,
		Pod: string(from.pod), Volume: from.directory, Again: again,
	}
	created, lastMoved := false, a.Now()
	for a.life.Err() == nil {
		stopped := context.Cause(ctx)
		pod, err := a.Pods.Find(a.life, l.GetUID(), t.attempt)
		switch {
		case err != nil:
		case pod == nil && stopped != nil:
			return stoppedBy(stopped)
		case pod == nil && created:
			return a.lost("its pod was deleted", false)
		case pod == nil && from.File == nil:
			return a.lost("no pod moves its data, and its volume is not accessible on this node", false)
		case pod == nil:
			if err = a.awaitMaintenance(ctx, l, t); err == nil {
				order.Parent = a.parent(a.life, l)
				err = a.Pods.Create(a.life, l.Object, order)
				created, lastMoved = err == nil, a.Now()
			}
		default:
			created = true
			state := loadpod.StateOf(pod, order)
			switch {
			case state.Result != nil && (stopped == nil || state.Result.Error == ""):
				return a.outcomeOf(l, state.Result)
			case state.Result != nil:
				return stoppedBy(stopped)
			case stopped != nil:
				err = a.Pods.Stop(a.life, pod, cancelGrace)
			case state.Waits == "":
				lastMoved = a.Now()
			}
			t.wait(state.Waits)
			t.report(a.Pods.Progress(pod))
		}
		if err != nil {
			t.wait(err.Error())
		}
		if why := t.waits.Load(); why != nil && stopped == nil && a.Now().Sub(lastMoved) > a.PrepareTimeout {
			t.cancel(fmt.Errorf("timeout on preparing %s: %s after %s", l.name, *why, a.PrepareTimeout))
		}
		pause(ctx, podPeriod)
	}
	return outcome{} // for nobody
}

// pause waits for some time. It returns earlier when ctx ends during it.
func pause(ctx context.Context, d time.Duration) {
	ends := ctx.Done()
	if ctx.Err() != nil {
		ends = nil
	}
	select {
	case <-ends:
	case <-time.After(d):
	}
}

// stoppedBy is the outcome of an attempt that was stopped.
func stoppedBy(cause error) outcome {
	if errors.Is(cause, errCancelled) {
		return canceledMoving()
	}
	return failed(cause.Error())
}

// outcomeOf is the outcome of an attempt whose pod has ended.
func (a *Agent) outcomeOf(l *load, r *loadpod.Result) outcome {
	warnings := r.Warnings
	if r.Omitted > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more warnings", r.Omitted))
	}
	a.warn(l, warnings)
	switch {
	case r.Lost:
		return a.lost(r.Error, r.Memory)
	case r.Error != "":
		return failed(r.Error)
	}
	o := outcome{phase: velerov1.LoadPhaseCompleted, bytes: r.Bytes}
	if !l.restore {
		o.backup = &stored{id: r.SnapshotID, newBytes: r.NewBytes, path: r.Path}
	}
	return o
}

// Move makes one attempt to move the data of a load, as the program in a pod of its own. It writes nothing but the data
// and the BackupRepository of a new repository. The agent of the node writes the status of the load.
func (a *Agent) Move(ctx context.Context, order *loadpod.Order, progress func(done, total int64)) *loadpod.Result {
	o, err := a.moveOrdered(ctx, order, progress)
	r := &loadpod.Result{ID: order.ID(), Warnings: o.warnings}
	lost, isLost := errors.AsType[*Lost](err)
	switch {
	case ctx.Err() != nil && err != nil:
		r.Error, r.Lost = "its pod was told to end", true
	case isLost:
		r.Error, r.Lost, r.Memory = err.Error(), true, lost.Memory
	case err != nil:
		r.Error = err.Error()
	default:
		r.Bytes = o.bytes
		if o.backup != nil {
			r.SnapshotID, r.NewBytes, r.Path = o.backup.id, o.backup.newBytes, o.backup.path
		}
	}
	return r
}

func (a *Agent) moveOrdered(
	ctx context.Context, order *loadpod.Order, progress func(done, total int64),
) (outcome, error) {
	l, err := a.ordered(ctx, order)
	if err != nil {
		return outcome{}, err
	}
	from, err := hostpath.Find(a.HostPods, order.Pod, order.Volume)
	if err != nil {
		return outcome{}, &Lost{Err: err} // the kubelet may have unmounted it
	}
	defer func() { _ = from.Close() }()
	return a.call(ctx, l, from, job{parent: order.Parent, again: order.Again}, progress)
}

// ordered reads the load of an order, and checks it as the agent does.
func (a *Agent) ordered(ctx context.Context, order *loadpod.Order) (*load, error) {
	for _, k := range kinds() {
		if k.name != order.Kind {
			continue
		}
		object := k.object()
		if err := a.Live.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: order.Name}, object); err != nil {
			return nil, fmt.Errorf("get %s %s: %w", order.Kind, order.Name, err)
		}
		l := newLoad(k, object)
		if err := a.prove(ctx, l); err != nil {
			return nil, err
		}
		switch {
		case string(l.GetUID()) != order.UID:
			return nil, fmt.Errorf("%s %s has UID %s, want %s", order.Kind, order.Name, l.GetUID(), order.UID)
		case l.proof.refused != "":
			return nil, errors.New(refusal(l.proof.refused))
		case a.refusal(l) != "":
			return nil, errors.New(a.refusal(l))
		case l.phase() != velerov1.LoadPhaseInProgress || l.attempt() != order.Attempt:
			return nil, fmt.Errorf("%s %s is %s at %s, want %s at %s", order.Kind, order.Name, l.phase(),
				loadpod.Attempt(l.attempt()), velerov1.LoadPhaseInProgress, loadpod.Attempt(order.Attempt))
		}
		return l, nil
	}
	return nil, fmt.Errorf("%q is not a kind of load", order.Kind)
}
