package holds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Controller holds the files of backups with velerov1.HoldAnnotation, and ends holds. Until the annotation says that it
// is done, each attempt begins anew: a server that was killed leaves nothing that the next one does not complete.
type Controller struct {
	*run.Cluster
	Stores run.Stores
	Events events.EventRecorder
	Log    hclog.Logger
}

const (
	// retryDelay is the time between two attempts.
	retryDelay = time.Minute
	maxFailure = 1000 // bytes of a reason in an annotation
)

// Setup makes a controller of the backups with the annotation.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	return b.For(&velerov1.Backup{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
		backup, ok := o.(*velerov1.Backup)
		return ok && isDue(backup)
	})))
}

// isDue reports whether there is something to do for a backup.
func isDue(b *velerov1.Backup) bool {
	want := b.Annotations[velerov1.HoldAnnotation]
	phase := run.BackupPhase(b)
	return want != "" && (want != "true" || b.Annotations[velerov1.HeldAnnotation] != "true") && !velerov1.IsDryRun(b) &&
		(phase.Terminal() || phase == velerov1.BackupPhaseDeleting) && b.DeletionTimestamp == nil
}

// Reconcile sets or ends the hold on one backup.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := new(velerov1.Backup)
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isDue(b) {
		return ctrl.Result{}, nil
	}
	want := b.Annotations[velerov1.HoldAnnotation]
	err := r.hold(ctx, b, want)
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	log := r.Log.With("backup", b.Name)
	if err == nil {
		log.Info("changed the legal hold on the files of a backup", "held", want)
		reason, text := "Held", "the files of the backup have a legal hold"
		if want == "false" {
			reason, text = "Released", "the files of the backup have no legal hold any more"
		}
		r.Events.Eventf(b, nil, corev1.EventTypeNormal, reason, "LegalHold", "%s", text)
		return ctrl.Result{}, r.done(ctx, b, want)
	}
	log.Warn("could not change the legal hold on the files of a backup", "error", err)
	_, final := errors.AsType[refusal](err)
	final = final || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, store.ErrNotFound)
	if err := r.noteFailure(ctx, b, err, final); err != nil || final {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: retryDelay}, nil
}

// refusal is a permanent reason not to hold a backup.
type refusal string

func (r refusal) Error() string { return string(r) }

// hold sets or ends the hold on the files of a backup.
func (r *Controller) hold(ctx context.Context, b *velerov1.Backup, want string) error {
	if want != "true" && want != "false" {
		return refusal(fmt.Sprintf("the annotation %s is %.40q, want true or false", velerov1.HoldAnnotation, want))
	}
	if run.NeverStored(b) {
		return refusal("the backup was never stored, so that it has no files")
	}
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return err
	}
	if problem := run.LocationProblem(location); problem != "" {
		return errors.New(problem)
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return err
	}
	metadata, err := objects.BackupMetadata(ctx, b.Name)
	if err != nil {
		return err
	}
	var stored velerov1.Backup
	if store.DecodeMetadata(metadata, &stored) == nil && !run.Owns(b, &stored) {
		return refusal("the object storage holds another backup of that name")
	}
	return objects.Hold(ctx, b.Name, want == "true")
}

// done notes that the hold is as it was asked for, unless something else was asked for meanwhile.
func (r *Controller) done(ctx context.Context, b *velerov1.Backup, want string) error {
	before := b.DeepCopy()
	delete(b.Annotations, velerov1.HoldFailureAnnotation)
	if want == "true" {
		b.Annotations[velerov1.HeldAnnotation] = "true"
	} else {
		delete(b.Annotations, velerov1.HeldAnnotation)
		delete(b.Annotations, velerov1.HoldAnnotation)
	}
	return r.write(ctx, b, before)
}

// noteFailure notes why the hold could not be changed. A final failure ends the request.
func (r *Controller) noteFailure(ctx context.Context, b *velerov1.Backup, reason error, final bool) error {
	before := b.DeepCopy()
	b.Annotations[velerov1.HoldFailureAnnotation] = shorten.Text(reason.Error(), maxFailure)
	if final {
		delete(b.Annotations, velerov1.HoldAnnotation)
	}
	return r.write(ctx, b, before)
}

func (r *Controller) write(ctx context.Context, b, before *velerov1.Backup) error {
	err := r.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write to backup %s what became of its legal hold: %w", b.Name, err)
	}
	return nil
}
