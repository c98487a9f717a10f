package location

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ensureDefault sets spec.default so that at most one location has it. If several have it, the one that was created
// last keeps it; if none has it, the configured default location gets it.
func (r *Reconciler) ensureDefault(ctx context.Context, namespace string) error {
	var list velerov1.BackupStorageLocationList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the backup storage locations of namespace %s: %w", namespace, err)
	}
	for location, mark := range defaultChanges(list.Items, r.DefaultLocation) {
		before := location.DeepCopy()
		location.Spec.Default = mark
		if err := r.Client.Patch(ctx, location, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("set spec.default of backup storage location %s to %t: %w", location.Name, mark, err)
		}
		r.Log.Info("changed the default backup storage location", "location", location.Name, "default", mark)
	}
	return nil
}

// defaultChanges returns the locations whose spec.default has to change, with the new value.
func defaultChanges(
	locations []velerov1.BackupStorageLocation, preferred string,
) map[*velerov1.BackupStorageLocation]bool {
	changes := map[*velerov1.BackupStorageLocation]bool{}
	var marked []*velerov1.BackupStorageLocation
	for i := range locations {
		if locations[i].Spec.Default {
			marked = append(marked, &locations[i])
		}
	}
	if len(marked) == 0 {
		if i := slices.IndexFunc(locations,
			func(l velerov1.BackupStorageLocation) bool { return l.Name == preferred }); i >= 0 {
			changes[&locations[i]] = true
		}
		return changes
	}
	newest := slices.MaxFunc(marked, func(a, b *velerov1.BackupStorageLocation) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, location := range marked {
		if location != newest {
			changes[location] = false
		}
	}
	return changes
}
