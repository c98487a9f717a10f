package v1

import (
	"fmt"
	"strconv"
)

// OwnerReferencesAnnotation of a Restore with the value "true" restores the owners of objects, with the UIDs that they
// have in the cluster. Without it no owner is restored, as in Velero.
const OwnerReferencesAnnotation = "cleat.dev/restore-owner-references"

// FinalizersAnnotation of a Restore with the value "false" leaves the finalizers of objects out. Without it they are
// restored, as in Velero, and somebody must be there to remove them before the objects can be deleted.
const FinalizersAnnotation = "cleat.dev/restore-finalizers"

// RestoresOwnerReferences reports whether a restore restores the owners of objects. It returns an error if the
// annotation is invalid.
func RestoresOwnerReferences(r *Restore) (bool, error) {
	return choice(r, OwnerReferencesAnnotation, false)
}

// RestoresFinalizers reports whether a restore restores the finalizers of objects. It returns an error if the
// annotation is invalid.
func RestoresFinalizers(r *Restore) (bool, error) { return choice(r, FinalizersAnnotation, true) }

// choice returns the value of an annotation, or the default without one.
func choice(r *Restore, annotation string, byDefault bool) (bool, error) {
	text, ok := r.Annotations[annotation]
	if !ok {
		return byDefault, nil
	}
	chosen, err := strconv.ParseBool(text)
	if err != nil {
		return byDefault, fmt.Errorf("annotation %s: %q, want true or false", annotation, text)
	}
	return chosen, nil
}
