package app

import (
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cleat-dev/cleat/server/internal/control"
	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// registrar adds controllers to a manager until one of them fails.
type registrar struct {
	mgr      ctrl.Manager
	log      hclog.Logger
	disabled []string
	err      error
}

// add adds a controller of the objects of one kind, which reconciles those with events that pass. watch, if not nil, is
// called for every change of such an object, even while the object is being reconciled.
func (r *registrar) add(
	name string, object client.Object, workers int, reconciler reconcile.Reconciler, watch handler.EventHandler,
	pass ...predicate.Predicate,
) {
	if r.err != nil || r.isDisabled(name) {
		return
	}
	b := r.builder(name, workers).For(object, builder.WithPredicates(pass...))
	if watch != nil {
		b = b.Watches(object, watch)
	}
	r.complete(name, b, reconciler)
}

// addQueue adds the controller of the queue, unless the controller of backups is disabled: the admitted backups would
// hold their slots for ever. It reports whether it has added it.
func (r *registrar) addQueue(q *backupqueue.Controller, wake <-chan event.GenericEvent) bool {
	if r.isDisabled(run.BackupQueueController) || !r.needs(run.BackupQueueController, run.BackupController) {
		return false
	}
	r.complete(run.BackupQueueController, q.Setup(r.builder(run.BackupQueueController, 1), wake), q)
	return true
}

// watcher is a controller that sets up its own watches.
type watcher interface {
	reconcile.Reconciler
	Setup(*ctrl.Builder) *ctrl.Builder
}

// setUp adds a controller that sets up its own watches.
func (r *registrar) setUp(name string, workers int, w watcher) {
	if r.err == nil && !r.isDisabled(name) {
		r.complete(name, w.Setup(r.builder(name, workers)), w)
	}
}

// needs reports whether the controller without which another one is of no use is not disabled.
func (r *registrar) needs(name, other string) bool {
	if !slices.Contains(r.disabled, other) {
		return true
	}
	r.log.Warn(fmt.Sprintf("controller disabled, because controller %q is", other), "controller", name)
	return false
}

func (r *registrar) isDisabled(name string) bool {
	disabled := slices.Contains(r.disabled, name)
	if disabled {
		r.log.Warn("controller disabled", "controller", name)
	}
	return disabled
}

func (r *registrar) builder(name string, workers int) *ctrl.Builder {
	return control.NewBuilder(r.mgr, name, workers, NewLogr(r.log.Named(name)))
}

func (r *registrar) complete(name string, b *ctrl.Builder, reconciler reconcile.Reconciler) {
	if err := b.Complete(reconciler); err != nil {
		r.err = fmt.Errorf("set up controller %s: %w", name, err)
	}
}
