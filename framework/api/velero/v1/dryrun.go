package v1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DryRunAnnotation of a Backup or Restore makes it a dry run: the server finds out what it would do, and does nothing.
// It is set with the creation, to DryRunRequested. A dry run is never in a phase in which a server works on it: it
// ends, and should begin, as FailedValidation, so that no server and no client takes it for a backup or a restore.
const DryRunAnnotation = "cleat.dev/dry-run"

// Values of DryRunAnnotation.
const (
	DryRunRequested = "true"
	DryRunDone      = "done"
	DryRunFailed    = "failed"
)

// DryRunKeepAnnotation is how long a dry run is kept after its end, such as "1h"; DefaultDryRunKeep without it.
const DryRunKeepAnnotation = "cleat.dev/dry-run-keep"

// DefaultDryRunKeep is how long a dry run is kept by default.
const DefaultDryRunKeep = time.Hour

// IsDryRun reports whether an object is a dry run, at work or ended.
func IsDryRun(object metav1.Object) bool {
	return object.GetAnnotations()[DryRunAnnotation] != ""
}

// AcceptAnnotation of a Backup is the dry run, as "NAME/UID", whose items it takes, and no others.
const AcceptAnnotation = "cleat.dev/accept"

// Accepts returns the name and the UID of the dry run that a backup accepts. ok is false if it accepts none; both are
// empty if the annotation is invalid.
func Accepts(b *Backup) (name, uid string, ok bool) {
	value, ok := b.Annotations[AcceptAnnotation]
	if !ok {
		return "", "", false
	}
	name, uid, valid := strings.Cut(value, "/")
	if !valid || name == "" || uid == "" {
		return "", "", true
	}
	return name, uid, true
}
