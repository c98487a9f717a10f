package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// transitions are the phases that may follow each phase. A load whose volume has to be exposed again is New again.
func transitions() map[velerov1.LoadPhase][]velerov1.LoadPhase {
	ends := []velerov1.LoadPhase{velerov1.LoadPhaseFailed, velerov1.LoadPhaseCanceled}
	return map[velerov1.LoadPhase][]velerov1.LoadPhase{
		velerov1.LoadPhaseNew:      append(ends, velerov1.LoadPhaseAccepted),
		velerov1.LoadPhaseAccepted: append(ends, velerov1.LoadPhasePrepared, velerov1.LoadPhaseNew),
		velerov1.LoadPhasePrepared: append(ends, velerov1.LoadPhaseInProgress, velerov1.LoadPhaseNew),
		velerov1.LoadPhaseInProgress: append(ends, velerov1.LoadPhaseCanceling, velerov1.LoadPhaseCompleted,
			velerov1.LoadPhaseNew),
		velerov1.LoadPhaseCanceling: append(ends, velerov1.LoadPhaseCompleted),
	}
}

// write makes one conditional write and returns the new state. It fails with a conflict if the load differs from the
// cached one.
func (a *Agent) write(ctx context.Context, l *load, change func(*load)) (*load, error) {
	after := l.copy()
	change(after)
	if from, to := l.phase(), after.phase(); from != to && !slices.Contains(transitions()[from], to) {
		return nil, fmt.Errorf("%s %s cannot become %s, because it is %s", l.name, l.GetName(), to, from)
	}
	if err := a.sign(ctx, after); err != nil {
		return nil, err
	}
	err := a.Patch(ctx, after.Object, client.MergeFromWithOptions(l.Object, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return nil, err
	}
	written := newLoad(l.kind, after.Object)
	written.proof.refused = l.proof.refused
	return written, nil
}

// superseded reports whether an error means that the cached state of a load was old. An event follows.
func superseded(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// accept moves a New load to Accepted, and sets the label by which Velero's agents count it. For a restore that was
// created before its pod, accept records the UID of the pod, so that no later pod of the same name is mistaken for it.
func (a *Agent) accept(ctx context.Context, l *load) (*load, error) {
	var waiting types.UID
	if l.bind != nil && l.spec.pod.UID == "" {
		pod, err := a.pod(ctx, l)
		if err != nil {
			return nil, err
		}
		if pod == nil {
			return nil, fmt.Errorf("the pod of %s %s is not on this node any more", l.name, l.GetName())
		}
		waiting = pod.UID
	}
	spec := l.spec
	after, err := a.write(ctx, l, func(l *load) {
		l.clear(l.Object) // removes what the creator may have written
		l.status.Phase, l.status.Message, l.status.AcceptedTimestamp = velerov1.LoadPhaseAccepted, "", run.Timestamp(a.Now())
		annotate(l, &spec)
		at := l.place(l.Object)
		switch {
		case at.acceptedBy != nil:
			*at.acceptedBy = a.Node
		case at.node != nil:
			*at.node = a.Node
		}
		mark(l.Object, true)
		if waiting != "" {
			l.bind(l.Object, waiting)
		}
		if l.GetDeletionTimestamp() == nil {
			controllerutil.AddFinalizer(l.Object, l.finalizer)
		}
	})
	if err == nil {
		a.Metrics.accept(l, a.Now())
	}
	return after, err
}

// mark sets or removes the label by which Velero's agents count the loads that are being prepared.
func mark(object client.Object, set bool) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	if set {
		labels[velerov1.ExposeOnGoingLabel] = "true"
	} else {
		delete(labels, velerov1.ExposeOnGoingLabel)
	}
	object.SetLabels(labels)
}

// outcome describes how a load ends.
type outcome struct {
	phase   velerov1.LoadPhase
	message string
	backup  *stored // of a Completed backup
	bytes   int64   // of the volume, if Completed

	warnings []string

	lost   bool // the mover has ended before it answered; there is no phase
	memory bool // because it needed more memory
	// interrupted is set if the attempt was ended from outside, so that it does not count.
	interrupted bool
	at          time.Time
}

// end writes the end of a load, after the objects that expose its volume were removed. For a refused load, nothing
// else is done.
func (a *Agent) end(ctx context.Context, l *load, o outcome) (*load, error) {
	refused := l.proof.refused != "" || a.refusal(l) != ""
	if l.proof.refused != "" {
		o = failed(refusal(l.proof.refused))
	}
	if exposer := a.Exposers[l.name]; exposer != nil && !refused { // also of a New load: its snapshot has no other user
		err := exposer.Release(ctx, l.copy().Object, o.phase == velerov1.LoadPhaseCompleted)
		if final, ends := errors.AsType[*Final](err); ends {
			o = failed(final.Error())
			err = exposer.Release(ctx, l.copy().Object, false)
		}
		if err != nil {
			return nil, fmt.Errorf("remove what exposes the volume of %s %s: %w", l.name, l.GetName(), err)
		}
	}
	if o.phase == velerov1.LoadPhaseCompleted && !refused {
		if err := a.signalRestored(ctx, l); err != nil {
			o = failed(err.Error())
		}
	}
	if o.phase != velerov1.LoadPhaseCompleted && !refused {
		a.signalFailed(ctx, l, o.message)
	}
	after, err := a.write(ctx, l, func(l *load) {
		l.status.Phase, l.status.Message, l.status.CompletionTimestamp = o.phase, o.message, run.Timestamp(a.Now())
		if o.phase == velerov1.LoadPhaseCompleted {
			l.status.Progress = velerov1.LoadProgress{TotalBytes: o.bytes, BytesDone: o.bytes}
		}
		if o.backup != nil {
			l.result(l.Object, o.backup)
		}
		mark(l.Object, false)
		controllerutil.RemoveFinalizer(l.Object, l.finalizer)
	})
	if err == nil {
		a.Log.Info("load ended", "kind", l.name, "name", l.GetName(), "phase", o.phase, "message", o.message)
		a.Metrics.end(after)
		a.tellEnd(after)
	}
	return after, err
}

// tellEnd records an event of a load that has ended.
func (a *Agent) tellEnd(l *load) {
	switch {
	case a.Events == nil:
	case l.phase() == velerov1.LoadPhaseFailed:
		run.Warn(a.Events, l.Object, string(l.phase()), "Move", l.status.Message)
	default:
		text := fmt.Sprintf("node %s: %d of %d bytes were moved", a.Node, l.status.Progress.BytesDone,
			l.status.Progress.TotalBytes)
		a.Events.Eventf(l.Object, nil, corev1.EventTypeNormal, string(l.phase()), "Move", "%s", text)
	}
}

// canceled returns the outcome of a load that is canceled without a transfer.
func canceled(l *load) outcome {
	why := "spec.cancel was set"
	if l.GetDeletionTimestamp() != nil {
		why = "it was deleted"
	}
	return outcome{phase: velerov1.LoadPhaseCanceled, message: fmt.Sprintf("canceled while it was %s, because %s",
		l.phase(), why)}
}

func failed(message string) outcome {
	return outcome{phase: velerov1.LoadPhaseFailed, message: message}
}
