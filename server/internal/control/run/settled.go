package run

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// UnsettledBackups selects the events that the controllers of runs need: all events except those of settled backups. A
// cluster has thousands of these. Each would be reconciled at the start of the server, when it is created from a
// bucket, and at each resync.
func UnsettledBackups() predicate.Predicate {
	unsettled := func(object client.Object) bool {
		b, ok := object.(*velerov1.Backup)
		return !ok || !isSettled(b)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return unsettled(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return unsettled(e.ObjectOld) || unsettled(e.ObjectNew) },
	}
}

// isSettled reports whether no work is left for a backup. A dry run is deleted some time after its end, and a failed
// backup may have left files.
func isSettled(b *velerov1.Backup) bool {
	return BackupPhase(b).Terminal() && !HasPartialData(b) && !velerov1.IsDryRun(b) && len(b.Finalizers) == 0
}
