package run

import (
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ClaimAnnotation identifies the process that runs a backup or restore. The write that starts an attempt sets it to a
// value that only one process can have written. When the value changes, another process has taken up the run.
const ClaimAnnotation = "cleat.dev/claim"

// TimesAnnotation has the times of the attempts of a backup or restore: when the last one has begun; then how many of
// the attempts do not count, because their servers ended soon after their start; and when the first of the last ones in a
// row has begun.
const TimesAnnotation = "cleat.dev/attempt-times"

// Claim identifies the process that runs a backup or restore, and its attempt.
type Claim struct {
	By      string // different for every attempt; empty if another kind of server has started the run
	Attempt int    // from 1
	Times   string // value of TimesAnnotation; empty if another kind of server has started the run
}

// ClaimOf returns the claim in the annotations of an object.
func ClaimOf(object client.Object) Claim {
	annotations := object.GetAnnotations()
	return Claim{
		By: annotations[ClaimAnnotation], Attempt: velerov1.AttemptOf(object), Times: annotations[TimesAnnotation],
	}
}

// Set writes the claim to the annotations of an object.
func (c Claim) Set(object client.Object) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = make(map[string]string, 3)
	}
	annotations[ClaimAnnotation], annotations[velerov1.AttemptAnnotation] = c.By, strconv.Itoa(c.Attempt)
	if annotations[TimesAnnotation] = c.Times; c.Times == "" {
		delete(annotations, TimesAnnotation)
	}
	object.SetAnnotations(annotations)
}

// dropClaim removes the claim from the annotations of an object.
func dropClaim(object client.Object) {
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, ClaimAnnotation)
	delete(annotations, velerov1.AttemptAnnotation)
	delete(annotations, TimesAnnotation)
	object.SetAnnotations(annotations)
}

// NewIdentity returns a name for this process that no other process has, even on the same host. It begins with the
// name of the host, for readers.
func NewIdentity(host string) string { return host + "_" + string(uuid.NewUUID()) }

// newClaim returns a value for ClaimAnnotation.
func newClaim(identity string) string { return identity + "/" + string(uuid.NewUUID())[:8] }

// interrupted returns the reason of failure for a run that was interrupted in its last attempt. If it had only one
// attempt, the text is Velero's.
func interrupted(kind string, attempts int) error {
	if attempts == 1 {
		return fmt.Errorf(`found a %s with status "InProgress" during the server starting, mark it as "Failed"`, kind)
	}
	return fmt.Errorf("gave up after %d attempts: in each of them the server was stopped or killed, or lost its lease, "+
		"while the %s was in progress", attempts, kind)
}
