package node

import (
	"cmp"
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
		Pod: string(from.pod), Volume: from.directory, Again: again, Bytes: l.spec.bytes,
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
			return interrupted("its pod was deleted")
		case pod == nil && from.File == nil:
			return interrupted("no pod moves its data, and its volume is not accessible on this node")
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
			done, total, waits := a.Pods.Progress(pod)
			t.wait(wait{why: cmp.Or(state.Waits, waits), usual: state.Waits != ""})
			t.Report(done, total)
		}
		if err != nil {
			t.wait(wait{why: err.Error(), usual: true})
		}
		if w := t.waits.Load(); w != nil && stopped == nil && a.Now().Sub(lastMoved) > a.PrepareTimeout {
			t.cancel(fmt.Errorf("timeout on preparing %s: %s after %s", l.name, w.why, a.PrepareTimeout))
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
	case r.Interrupted:
		return interrupted(r.Error)
	case r.Lost:
		return a.lost(r.Error, r.Memory)
	case r.Error != "":
		return failed(r.Error)
	}
	o := outcome{phase: velerov1.LoadPhaseCompleted, bytes: r.Bytes, message: lossesOf(warnings)}
	if !l.restore {
		o.backup = &stored{id: r.SnapshotID, newBytes: r.NewBytes, path: r.Path}
	}
	return o
}

// Move makes one attempt to move the data of a load, as the program in a pod of its own. It writes nothing but the data
// and the BackupRepository of a new repository. The agent of the node writes the status of the load.
func (a *Agent) Move(ctx context.Context, order *loadpod.Order, to reporter) *loadpod.Result {
	o, err := a.moveOrdered(ctx, order, to)
	r := &loadpod.Result{ID: order.ID(), Warnings: o.warnings}
	lost, isLost := errors.AsType[*Lost](err)
	switch {
	case ctx.Err() != nil && err != nil:
		r.Error, r.Lost, r.Interrupted = "its pod was told to end", true, true
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
	ctx context.Context, order *loadpod.Order, to reporter,
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
	return a.callPatiently(ctx, l, from, job{parent: order.Parent, again: order.Again}, to)
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
			return nil, fmt.Errorf("%s %s is %s at attempt %d, want %s at attempt %d", order.Kind, order.Name, l.phase(),
				l.attempt(), velerov1.LoadPhaseInProgress, order.Attempt)
		}
		return l, nil
	}
	return nil, fmt.Errorf("%q is not a kind of load", order.Kind)
}
