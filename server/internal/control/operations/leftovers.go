package operations

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/versioning"
)

// Leftovers cancels leftover operations. Their backup or restore was deleted or has failed, or it has started them in
// an earlier attempt and has no record of them any more. Leftovers deletes a journal when its operations have ended.
//
// A request names the UID of an owner of operations.
type Leftovers struct {
	*Common
	Starter Starter

	mu    sync.Mutex
	asked map[types.UID]time.Time // owners whose plugins could not answer, with the time of the first question
}

// Starter calls an action again to start an operation under the same key. The action returns the ID of the operation
// that it has already started for the key.
type Starter interface {
	Start(ctx context.Context, owner *operation.Owner, start operation.Start) (id string, err error)
}

// errLeftOver is the reason why leftover operations are cancelled.
var errLeftOver = errors.New("no backup or restore waits for it any more")

// state is the state of the owner of a journal. It determines what happens to the operations.
type state int

const (
	running state = iota // the run continues, or is taken up again
	waits                // it waits for the operations in its file
	ended                // it has ended, and the operations in its file have ended, too
	lost                 // failed or deleted: no operation is needed any more
)

// Reconcile processes one journal.
func (r *Leftovers) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	uid := types.UID(req.Name)
	if known, err := r.hasJournal(ctx, req.Name); err != nil || !known {
		return ctrl.Result{}, err
	}
	journal, err := r.Journals.Load(ctx, uid)
	if err != nil || journal == nil {
		return ctrl.Result{}, err
	}
	owner := journal.Owner()
	now, files, err := r.state(ctx, owner)
	if err != nil || now == running {
		return ctrl.Result{}, err
	}
	var left []operation.Recorded
	if now == lost {
		left = journal.Starts()
	} else if left, err = r.unknown(ctx, owner, journal, files); err != nil {
		return ctrl.Result{}, err
	}
	gone, again, err := r.cancel(ctx, owner, left, now)
	if err != nil || !gone || now == waits {
		return ctrl.Result{RequeueAfter: again}, err
	}
	r.Log.Debug("no operation is open any more", owner.Kind, owner.Name)
	if err := r.Journals.Delete(ctx, uid); err != nil {
		return ctrl.Result{}, err
	}
	r.forget(uid)
	r.forget(leftOf(owner).UID)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, uid)
	return ctrl.Result{}, nil
}

// state reads the owner of a journal from the API server. The files are nil if they cannot be found, or are not
// needed.
func (r *Leftovers) state(ctx context.Context, owner *operation.Owner) (state, *files, error) {
	key := client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}
	if owner.Kind == operation.OfRestore {
		var restore velerov1.Restore
		if err := r.Live.Get(ctx, key, &restore); client.IgnoreNotFound(err) != nil {
			return 0, nil, err
		} else if err != nil || restore.UID != owner.UID || restore.DeletionTimestamp != nil {
			return lost, nil, nil
		}
		return r.restoreState(ctx, &restore)
	}
	var b velerov1.Backup
	if err := r.Live.Get(ctx, key, &b); client.IgnoreNotFound(err) != nil {
		return 0, nil, err
	} else if err != nil || b.UID != owner.UID || b.DeletionTimestamp != nil {
		return lost, nil, nil
	}
	return r.backupState(ctx, &b)
}

func (r *Leftovers) backupState(ctx context.Context, b *velerov1.Backup) (state, *files, error) {
	now := ended
	switch phase := run.BackupPhase(b); {
	case queueOrRun(phase):
		return running, nil, nil
	case phase == velerov1.BackupPhaseFailed, phase == velerov1.BackupPhaseFailedValidation,
		phase == velerov1.BackupPhaseDeleting:
		return lost, nil, nil
	case phase == velerov1.BackupPhaseWaitingForPluginOperations,
		phase == velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed:
		now = waits
	case phase == velerov1.BackupPhasePartiallyFailed &&
		b.Status.BackupItemOperationsAttempted > b.Status.BackupItemOperationsCompleted+b.Status.BackupItemOperationsFailed:
		return lost, nil, nil // its location was deleted
	}
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		return lost, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return 0, nil, err
	}
	return now, &files{
		objects: objects.Of(b), name: b.Name, operations: velerov1.DownloadTargetKindBackupItemOperations,
	}, nil
}

func queueOrRun(phase velerov1.BackupPhase) bool {
	switch phase {
	case velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
		velerov1.BackupPhaseInProgress:
		return true
	default:
		return false
	}
}

func (r *Leftovers) restoreState(ctx context.Context, restore *velerov1.Restore) (state, *files, error) {
	now := ended
	switch run.RestorePhase(restore) {
	case velerov1.RestorePhaseNew, velerov1.RestorePhaseInProgress:
		return running, nil, nil
	case velerov1.RestorePhaseFailed, velerov1.RestorePhaseFailedValidation:
		return lost, nil, nil
	case velerov1.RestorePhaseWaitingForPluginOperations, velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed:
		now = waits
	default:
	}
	objects, err := r.objectsOf(ctx, restore)
	if errors.Is(err, errNoFiles) {
		return lost, nil, nil
	}
	return now, &files{objects: objects, name: restore.Name, operations: velerov1.DownloadTargetKindRestoreItemOperations},
		err
}

// unknown returns the operations in the journal that are missing in the file of the operations. If the file cannot be
// used, the controllers of backups and restores wait for all operations in the journal, so none are left over.
func (r *Leftovers) unknown(
	ctx context.Context, owner *operation.Owner, journal *operation.Journal, files *files,
) ([]operation.Recorded, error) {
	file, err := store.DecodeList[operation.File](ctx, files.objects, files.operations, files.name)
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return nil, err
	}
	all, invalid := file.Operations(owner)
	if err != nil || invalid != nil {
		return nil, nil
	}
	return beyond(all, journal.Starts()), nil
}

// cancel cancels operations and reports whether all have ended. Otherwise it returns the time until the next check.
func (r *Leftovers) cancel(
	ctx context.Context, owner *operation.Owner, left []operation.Recorded, now state,
) (gone bool, again time.Duration, err error) {
	var all []operation.Operation
	if now == lost { // its run has followed them, or it has waited for them
		if group := r.Monitor.Group(owner.UID); group != nil {
			group.Cancel(errLeftOver)
			all, _ = group.Operations()
			left = beyond(all, left)
		}
	}
	group := r.Monitor.Group(leftOf(owner).UID)
	if group == nil && len(left) > 0 {
		known, err := r.resolve(ctx, owner, left)
		if err != nil {
			return false, 0, err
		}
		if len(known) > 0 {
			r.Log.Warn("cancelling operations for which no backup or restore waits", owner.Kind,
				owner.Namespace+"/"+owner.Name, "operations", len(known))
		}
		group = r.Monitor.Follow(leftOf(owner), known, 0) // even if there are none, so that they are not resolved again
	}
	if group != nil {
		group.Cancel(errLeftOver)
		beside, _ := group.Operations()
		all = append(all, beside...)
	}
	if operation.Count(all).Open() > 0 {
		return false, writePause, nil
	}
	for _, o := range failures(all) {
		r.Log.Info("an operation for which no backup or restore waits has ended", owner.Kind, owner.Name,
			"plugin", o.Action, "item", o.Item.String(), "operation", o.ID, "end", o.Error)
	}
	return true, 0, nil
}

// resolve returns the operations to cancel. It asks plugins for the unknown IDs.
func (r *Leftovers) resolve(
	ctx context.Context, owner *operation.Owner, left []operation.Recorded,
) ([]operation.Operation, error) {
	var all []operation.Operation
	for _, l := range left {
		if l.InDoubt() && l.Keyed {
			id, err := r.Starter.Start(ctx, owner, l.Start)
			switch {
			case err != nil && r.mayAskAgain(owner, err):
				return nil, fmt.Errorf("ask for the operation that may have been started for %s: %w", l.Item, err)
			case err != nil:
				r.Log.Warn("the plugin does not report whether it has started an operation; giving up", owner.Kind, owner.Name,
					"plugin", l.Action, "item", l.Item.String(), "error", err)
				continue
			}
			l.ID = id
		}
		if l.ID == "" {
			continue
		}
		all = append(all, l.Operation(r.Now()))
	}
	return all, nil
}

// leftOf returns the owner under which the monitor follows leftover operations. It separates them from the operations
// for which the owner waits.
func leftOf(owner *operation.Owner) *operation.Owner {
	beside := *owner
	beside.UID = owner.UID + "/left"
	return &beside
}

// patience is how long a plugin that cannot answer is asked whether it has started an operation.
const patience = time.Hour

// mayAskAgain reports whether the plugin may answer later: it has not refused to, and patience is not over.
func (r *Leftovers) mayAskAgain(owner *operation.Owner, err error) bool {
	if errors.Is(err, versioning.ErrInvalid) || errors.Is(err, versioning.ErrNotFound) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first, asked := r.asked[owner.UID]
	if !asked {
		if r.asked == nil {
			r.asked = map[types.UID]time.Time{}
		}
		r.asked[owner.UID] = r.Now()
		return true
	}
	return r.Now().Sub(first) < patience
}
