package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// OwnerOfBackup returns the backup as the owner of operations.
func OwnerOfBackup(b *velerov1.Backup) *operation.Owner {
	b = b.DeepCopy()
	b.APIVersion, b.Kind, b.ManagedFields = velerov1.SchemeGroupVersion.String(), operation.OfBackup, nil
	return ownerOf(b.Kind, b)
}

// OwnerOfRestore returns the restore as the owner of operations.
func OwnerOfRestore(r *velerov1.Restore) *operation.Owner {
	r = r.DeepCopy()
	r.APIVersion, r.Kind, r.ManagedFields = velerov1.SchemeGroupVersion.String(), operation.OfRestore, nil
	return ownerOf(r.Kind, r)
}

func ownerOf(kind string, object client.Object) *operation.Owner {
	raw, err := json.Marshal(object)
	if err != nil { // the type has only fields that JSON can represent
		panic(err)
	}
	return &operation.Owner{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		JSON: raw}
}

// FollowOperations opens the journal of the run, and adds the operations of the run to the monitor from their start:
// those that a former attempt has started under keys, and each operation that is added to the group. If the run is
// cancelled, or its object is deleted, the operations are cancelled at once.
func (r *Run) FollowOperations(
	journals *operation.Journals, monitor *operation.Monitor, owner *operation.Owner, object client.Object,
	timeout time.Duration,
) (*operation.Journal, *operation.Group, error) {
	if ClaimOf(object).Attempt == 1 {
		journal := journals.New(owner)
		return journal, r.follow(monitor, owner, nil, timeout), nil
	}
	journal, err := journals.Open(r.Ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	var before []operation.Operation
	for _, start := range journal.Starts() {
		if start.Keyed && !start.InDoubt() { // this attempt gets the same operation
			before = append(before, start.Operation(time.Now()))
		}
	}
	return journal, r.follow(monitor, owner, before, timeout), nil
}

func (r *Run) follow(
	monitor *operation.Monitor, owner *operation.Owner, before []operation.Operation, timeout time.Duration,
) *operation.Group {
	group := monitor.Begin(owner, before, timeout)
	context.AfterFunc(r.Ctx, func() {
		if cause := context.Cause(r.Ctx); errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrDeleted) {
			group.Cancel(cause)
		}
	})
	return group
}

// OperationsOfBackup returns the counts of operations in the status of a backup.
func OperationsOfBackup(b *velerov1.Backup) operation.Counts {
	return operation.Counts{
		Attempted: b.Status.BackupItemOperationsAttempted, Completed: b.Status.BackupItemOperationsCompleted,
		Failed: b.Status.BackupItemOperationsFailed,
	}
}

// CountOperationsOfBackup writes the counts of operations into the status of a backup.
func CountOperationsOfBackup(b *velerov1.Backup, c operation.Counts) {
	b.Status.BackupItemOperationsAttempted, b.Status.BackupItemOperationsCompleted,
		b.Status.BackupItemOperationsFailed = c.Attempted, c.Completed, c.Failed
}

// OperationsOfRestore returns the counts of operations in the status of a restore.
func OperationsOfRestore(r *velerov1.Restore) operation.Counts {
	return operation.Counts{
		Attempted: r.Status.RestoreItemOperationsAttempted, Completed: r.Status.RestoreItemOperationsCompleted,
		Failed: r.Status.RestoreItemOperationsFailed,
	}
}

// CountOperationsOfRestore writes the counts of operations into the status of a restore.
func CountOperationsOfRestore(r *velerov1.Restore, c operation.Counts) {
	r.Status.RestoreItemOperationsAttempted, r.Status.RestoreItemOperationsCompleted,
		r.Status.RestoreItemOperationsFailed = c.Attempted, c.Completed, c.Failed
}
