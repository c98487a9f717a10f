package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/examples/data-mover/engine"
)

// The causes that end the context of a work.
var (
	errCancelled = errors.New("the transfer was cancelled")
	errGone      = errors.New("the transfer was deleted")
	errLost      = errors.New("another controller has taken over the transfer, or may have")
	errStopped   = errors.New("the controller is being stopped")
)

// run is the work of this process on one transfer.
type run struct {
	*reconciler
	log      logr.Logger
	transfer *v1.DataTransfer // as last written
	progress engine.Progress
	ctx      context.Context
	cancel   context.CancelCauseFunc
	written  time.Time
}

// start starts the work on a transfer that this process holds, in a slot. If refused is an error, it is the result of
// the work.
func (r *reconciler) start(ctx context.Context, transfer *v1.DataTransfer, refused error) {
	own := &run{reconciler: r, log: ctrl.LoggerFrom(ctx), transfer: transfer, written: time.Now()}
	own.ctx, own.cancel = context.WithCancelCause(r.working)
	key, spec := client.ObjectKeyFromObject(transfer), transfer.Spec
	r.mu.Lock()
	r.runs[key] = own
	r.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		if refused == nil {
			refused = own.work(spec)
		}
		done <- refused
	}()
	r.active.Go(func() {
		defer func() { <-r.slots }()
		own.keep(done)
		own.cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, key)
	})
}

// work moves the data.
func (r *run) work(spec v1.Spec) error {
	directory := r.directory(spec)
	switch spec.Direction {
	case v1.Backup:
		return r.mover.Backup(r.ctx, directory, spec.Snapshot, &r.progress)
	case v1.Restore:
		return r.mover.Restore(r.ctx, spec.Snapshot, directory, &r.progress)
	case v1.Delete:
		return r.mover.Delete(r.ctx, spec.Snapshot)
	default:
		return fmt.Errorf("direction %q is not known", spec.Direction)
	}
}

// keep writes the progress of the work, and its end. It returns when the end is written, or when another process holds
// the transfer.
func (r *run) keep(done <-chan error) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	var result error
	returned := false
	for {
		select {
		case result = <-done:
			returned, done = true, nil
		case <-ticks.C:
			if time.Since(r.written) > r.lease*2/3 {
				r.cancel(errLost) // in time: another controller waits for the whole lease
			}
		}
		cause := context.Cause(r.ctx)
		if errors.Is(cause, errLost) || errors.Is(cause, errGone) {
			if !returned {
				continue
			}
			r.log.Info("gave up the work", "reason", cause.Error())
			if err := r.sweep(cause); err != nil {
				r.log.Error(err, "could not ask for the deletion of what was sent", "snapshot", r.transfer.Spec.Snapshot)
			}
			return
		}
		status := r.transfer.Status
		r.count(&status)
		if returned {
			r.end(&status, result, cause)
		} else if status == r.transfer.Status && time.Since(r.written) < r.lease/3 {
			continue
		}
		err := r.write(status)
		switch {
		case err != nil && !errors.Is(err, errLost) && !errors.Is(err, errGone):
			r.log.Error(err, "could not write the status") // and tries again
			if r.working.Err() != nil && returned {
				return // another controller continues after the lease
			}
		case err == nil && returned:
			r.log.Info("ended", "phase", r.transfer.Status.Phase, "message", r.transfer.Status.Message)
			return
		}
	}
}

// sweep requests the deletion of the files of a backup whose transfer was deleted.
func (r *run) sweep(cause error) error {
	if !errors.Is(cause, errGone) || r.transfer.Spec.Direction != v1.Backup {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), r.lease)
	defer stop()
	return r.remove(ctx, r.transfer)
}

// count sets the counts. They do not decrease when an attempt repeats work.
func (r *run) count(status *v1.Status) {
	count, begun := r.progress.Count()
	if !begun {
		return
	}
	status.Message = "moving"
	status.BytesTotal, status.FilesTotal = count.BytesTotal, count.FilesTotal
	status.BytesDone = min(max(status.BytesDone, count.BytesDone), count.BytesTotal)
	status.FilesDone = min(max(status.FilesDone, count.FilesDone), count.FilesTotal)
}

// end sets the final status of a transfer after its work has returned result.
func (r *run) end(status *v1.Status, result, cause error) {
	status.Holder = ""
	switch {
	case result == nil:
		status.Phase, status.Message = v1.Completed, "done"
	case errors.Is(cause, errStopped):
		status.Message = "waiting for another controller"
	case errors.Is(cause, errCancelled):
		status.Phase, status.Message = v1.Cancelled, errCancelled.Error()
	default:
		status.Phase, status.Message = v1.Failed, result.Error()
	}
}

// write writes the status, on the condition that this process still holds the transfer.
func (r *run) write(status v1.Status) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), r.lease/3)
	defer stop()
	for {
		next := r.transfer.DeepCopy()
		next.Status = status
		next.Status.UpdatedAt = metav1.NowMicro()
		err := r.client.Status().Update(ctx, next)
		if err == nil {
			r.transfer, r.written = next, time.Now()
			return nil
		}
		if apierrors.IsConflict(err) {
			var current v1.DataTransfer
			if err = r.live.Get(ctx, client.ObjectKeyFromObject(next), &current); err == nil {
				if current.Status.Holder != r.id || current.UID != next.UID {
					r.cancel(errLost)
					return errLost
				}
				r.transfer = &current // the spec has changed; Reconcile handles the change
				continue
			}
		}
		if apierrors.IsNotFound(err) {
			r.cancel(errGone)
			return errGone
		}
		return err
	}
}
