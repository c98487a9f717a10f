package backups

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// lookPause is the time between two looks at the location of a backup that waits.
const lookPause = time.Minute

// errValid means that nothing is wrong with a backup that waits.
var errValid = errors.New("the backup is valid")

// waiting are the backups that wait and were valid when they were validated, with the spec of that time.
type waiting struct {
	mu  sync.Mutex
	all map[client.ObjectKey]validated
}

type validated struct {
	uid  types.UID
	spec *velerov1.BackupSpec
}

// keep records that b is valid.
func (w *waiting) keep(b *velerov1.Backup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[client.ObjectKey]validated{}
	}
	w.all[client.ObjectKeyFromObject(b)] = validated{b.UID, b.Spec.DeepCopy()}
}

// has reports whether b was valid with its present spec.
func (w *waiting) has(b *velerov1.Backup) bool {
	w.mu.Lock()
	known, ok := w.all[client.ObjectKeyFromObject(b)]
	w.mu.Unlock()
	return ok && known.uid == b.UID && equality.Semantic.DeepEqual(known.spec, &b.Spec)
}

// forget removes a backup that does not wait any more.
func (w *waiting) forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, key)
}

// validateWaiting validates a backup before its turn. One that can never start fails its validation at once: in the
// queue it would hold up those that it overlaps. All of it is validated when it enters the queue and when its spec
// changes, and its location once a minute after that. What changes otherwise is found at its start.
func (r *Controller) validateWaiting(ctx context.Context, b *velerov1.Backup, log hclog.Logger) (ctrl.Result, error) {
	if r.waiting.has(b) {
		found := prepared{}
		trial := b.DeepCopy()
		var err error
		if found.location, trial.Status.ValidationErrors, err = r.location(ctx, trial); err != nil || !found.refused(trial) {
			return ctrl.Result{RequeueAfter: lookPause}, err
		}
	}
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		if found, err := r.prepare(ctx, b); err != nil {
			return err
		} else if !found.refused(b) {
			return errValid
		}
		b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseFailedValidation, 0
		delete(b.Annotations, velerov1.QueueWaitAnnotation)
		return nil
	})
	switch {
	case errors.Is(err, errValid):
		r.waiting.keep(b)
		return ctrl.Result{RequeueAfter: lookPause}, nil
	case run.Superseded(err):
		return ctrl.Result{}, nil
	case err != nil:
		return r.unwritable(b, fmt.Errorf("validate the backup before its turn: %w", err))
	}
	r.waiting.forget(client.ObjectKeyFromObject(b))
	log.Warn("the backup failed validation before its turn", "errors", b.Status.ValidationErrors)
	r.Metrics.BackupInvalid(b)
	return ctrl.Result{}, nil
}
