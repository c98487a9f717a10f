package run

import (
	"context"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/operation"
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
	if err != nil { // the type has only what JSON has
		panic(err)
	}
	return &operation.Owner{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), JSON: raw}
}

// OpenJournal returns the journal of a run. Only later attempts than the first read what was recorded before.
func OpenJournal(ctx context.Context, journals *operation.Journals, owner *operation.Owner, object client.Object) (*operation.Journal, error) {
	if ClaimOf(object).Attempt == 1 {
		return journals.New(owner), nil
	}
	return journals.Open(ctx, owner)
}
