package v1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitsAnnotation of a Backup or Restore that has begun and not ended is its Waits as JSON. Without waits that have
// lasted for a few seconds, there is none. It is an annotation for the same reason as QueueWaitAnnotation.
const WaitsAnnotation = "cleat.dev/waits"

// Waits is what a Backup or Restore waits for at the moment.
type Waits struct {
	// Oldest are the few waits that have lasted longest, the oldest first.
	Oldest []Wait `json:"oldest"`
	// Others is the number of the others.
	Others int `json:"others,omitempty"`
}

// Wait is what some items of a Backup or Restore wait for.
type Wait struct {
	// For is what they wait for, for people.
	For string `json:"for"`
	// Because is what is known about the reason, for people.
	Because string `json:"because,omitempty"`
	// Since is when the first of them began to wait.
	Since metav1.Time `json:"since"`
	// Parts is the number of parts of the run that wait for it; absent for one.
	Parts int `json:"parts,omitempty"`
}

// WaitsOf returns what the Backup or Restore waits for, or nil if it has no WaitsAnnotation. It returns an error if the
// annotation cannot be decoded.
func WaitsOf(object metav1.Object) (*Waits, error) {
	text, ok := object.GetAnnotations()[WaitsAnnotation]
	if !ok {
		return nil, nil
	}
	waits := &Waits{}
	if err := json.Unmarshal([]byte(text), waits); err != nil {
		return nil, fmt.Errorf("annotation %s of %s: %w", WaitsAnnotation, object.GetName(), err)
	}
	return waits, nil
}
