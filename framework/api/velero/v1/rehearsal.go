package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RehearsalAnnotation of a Restore makes it a rehearsal: the server restores the backup into namespaces of its own,
// shut in, finds out whether its workloads work, and takes everything away again. It is set with the creation, to
// RehearsalRequested, and has the phase of the rehearsal after that. The Restore begins as FailedValidation, so that no
// server without rehearsals takes it for a restore.
const RehearsalAnnotation = "cleat.dev/rehearsal"

// Values of RehearsalAnnotation.
const (
	RehearsalRequested = "requested"
	RehearsalPreparing = "preparing" // its namespaces are made
	RehearsalRestoring = "restoring"
	RehearsalWaiting   = "waiting"   // until the workloads are ready
	RehearsalChecking  = "checking"  // by the commands that the owners of the pods have set
	RehearsalReporting = "reporting" // the report is stored beside the backup
	RehearsalCleaning  = "cleaning"  // what was made is deleted
	RehearsalDone      = "done"
)

const (
	// RehearsalStateAnnotation of a Restore is the state of the rehearsal, which the server continues after a restart.
	RehearsalStateAnnotation = "cleat.dev/rehearsal-state"
	// RehearsalTimeoutAnnotation of a Restore is how long the rehearsal waits for the workloads, such as "10m".
	RehearsalTimeoutAnnotation = "cleat.dev/rehearsal-timeout"
	// RehearsalsAnnotation of a Backup lists the last rehearsals of it, the newest first, as JSON. The annotation of the
	// same name of a Restore has its own.
	RehearsalsAnnotation = "cleat.dev/rehearsals"
	// RehearsalLabel of a namespace is the UID of the Restore for whose rehearsal it was made.
	RehearsalLabel = "cleat.dev/rehearsal"
	// RehearsalFinalizer keeps the Restore of a rehearsal until all that it has made is deleted.
	RehearsalFinalizer = "cleat.dev/rehearsal"

	// RehearsalCheckAnnotation of a pod is a command that a rehearsal runs in it: a JSON list, or one word. It passes if
	// it exits with 0.
	RehearsalCheckAnnotation = "cleat.dev/rehearsal-check"
	// RehearsalCheckContainerAnnotation of a pod is the container of the command; the first one without it.
	RehearsalCheckContainerAnnotation = "cleat.dev/rehearsal-check-container"
	// RehearsalCheckTimeoutAnnotation of a pod is how long the command may take, such as "90s"; 30s without it.
	RehearsalCheckTimeoutAnnotation = "cleat.dev/rehearsal-check-timeout"

	// RehearseAnnotation of a Schedule is a cron expression. When it is due, the newest completed backup of the schedule
	// is rehearsed.
	RehearseAnnotation = "cleat.dev/rehearse"
	// RehearsedAnnotation of a Schedule is the time up to which its rehearsals were begun, in RFC 3339.
	RehearsedAnnotation = "cleat.dev/rehearsed"
)

// IsRehearsal reports whether a Restore is a rehearsal, at work or ended.
func IsRehearsal(object metav1.Object) bool {
	return object.GetAnnotations()[RehearsalAnnotation] != ""
}
