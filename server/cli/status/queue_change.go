package status

import (
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// QueueChange is a line of "queue -w -o json": the new state of a backup. A backup that has left the queue has its
// phase after that, or is deleted.
type QueueChange struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Time       string `json:"time"` // of the observation, RFC 3339
	QueueItem
	Deleted bool `json:"deleted,omitempty"`
}

// Text returns the sentence about the change, without its time.
func (c *QueueChange) Text() string {
	switch {
	case c.Deleted:
		return c.Name + ": deleted"
	case c.Position > 0:
		text := fmt.Sprintf("%s: %s, position %d", c.Name, c.Phase, c.Position)
		if why := c.why(); why != "" {
			text += ": " + why
		}
		return text
	default:
		return c.Name + ": " + c.Phase
	}
}

// NewQueueChange returns a change to b, which may be nil.
func NewQueueChange(b *velerov1.Backup) QueueChange {
	change := QueueChange{APIVersion: APIVersion, Kind: "QueueChange"}
	if b == nil {
		return change
	}
	change.QueueItem = newQueueItem(b)
	if b.DeletionTimestamp != nil && !InQueue(b) {
		change.Phase, change.Position = string(velerov1.BackupPhaseDeleting), 0
	}
	return change
}

// InQueue reports whether a backup is running, ready to start, or waiting.
func InQueue(b *velerov1.Backup) bool {
	line := queue.NewLine([]*velerov1.Backup{b})
	return len(line.Running)+len(line.Ready)+len(line.Queued) > 0
}
