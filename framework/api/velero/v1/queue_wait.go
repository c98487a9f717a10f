package v1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueWaitAnnotation of a Queued Backup is a QueueWait as JSON. It is an annotation because clients and resource
// definitions of stock Velero preserve annotations.
const QueueWaitAnnotation = "cleat.dev/queue-wait"

// QueueWait is the reason why a Queued Backup waits.
type QueueWait struct {
	// Reason is the reason in one word, for programs, e.g. "NamespaceOverlap" or "Limit".
	Reason string `json:"reason"`
	// Message is the reason in one line, for people.
	Message string `json:"message"`
	// Blockers are names of Backups that it waits for. The list may be incomplete.
	Blockers []string `json:"blockers,omitempty"`
	// Namespaces are the namespaces that it has in common with the blockers. The list may be incomplete.
	Namespaces []string `json:"namespaces,omitempty"`
	// Policy is the name of the plugin that made this decision. It is empty if the configured plugin fails, in which case
	// no backup starts.
	Policy string `json:"policy,omitempty"`
	// Since is when it began to wait for this reason. A change of the blockers does not change it.
	Since metav1.Time `json:"since"`
}

// QueueWaitOf returns the reason why the Backup waits, or nil if it has no QueueWaitAnnotation. It returns an error if
// the annotation cannot be decoded.
func QueueWaitOf(backup *Backup) (*QueueWait, error) {
	text, ok := backup.Annotations[QueueWaitAnnotation]
	if !ok {
		return nil, nil
	}
	wait := &QueueWait{}
	if err := json.Unmarshal([]byte(text), wait); err != nil {
		return nil, fmt.Errorf("annotation %s of backup %s: %w", QueueWaitAnnotation, backup.Name, err)
	}
	return wait, nil
}
