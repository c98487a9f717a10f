package v1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueWaitAnnotation of a Queued Backup says why it waits: JSON of a QueueWait. It is an annotation because clients
// and resource definitions of stock Velero keep those.
const QueueWaitAnnotation = "cleat.dev/queue-wait"

// QueueWait is why a Queued Backup waits.
type QueueWait struct {
	// Reason is one word for programs: "NamespaceOverlap", "Limit".
	Reason string `json:"reason"`
	// Message is the reason for people, one line.
	Message string `json:"message"`
	// Blockers are names of Backups that it waits for; there may be more than are named.
	Blockers []string `json:"blockers,omitempty"`
	// Namespaces are those that it has in common with them; there may be more than are named.
	Namespaces []string `json:"namespaces,omitempty"`
	// Policy is the name of the plugin that decided so. It is empty when none did: the one that is configured fails, and
	// nobody starts.
	Policy string `json:"policy,omitempty"`
	// Since is when it began to wait for this reason, whoever the blockers were.
	Since metav1.Time `json:"since"`
}

// QueueWaitOf is why the Backup waits; nil when nothing says so. An annotation that cannot be read is an error.
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
