package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IsAsCreated reports whether nobody has changed the spec or the status of an object since it was created, so that its
// status is what its maker wrote, and not a server. The API server counts the changes: the status of a Backup or a
// Restore is no resource of its own. It counts the deletion of an object that has finalizers, too.
func IsAsCreated(object metav1.Object) bool {
	generation := object.GetGeneration()
	if object.GetDeletionTimestamp() != nil {
		generation--
	}
	return generation == 1
}

// PhaseOf returns the phase of a backup, New for the empty one. One that was created in a phase in which a server works
// on backups is New, because no server has worked on it. Ended ones are created to stand for what a bucket has.
func PhaseOf(b *Backup) BackupPhase {
	phase := b.Status.Phase
	if phase == "" || IsAsCreated(b) && !phase.Terminal() {
		return BackupPhaseNew
	}
	return phase
}

// PhaseOfRestore returns the phase of a restore, as PhaseOf does.
func PhaseOfRestore(r *Restore) RestorePhase {
	phase := r.Status.Phase
	if phase == "" || IsAsCreated(r) && !phase.Terminal() {
		return RestorePhaseNew
	}
	return phase
}
