package status

import (
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/queue"
)

// queueChange is a line of "queue -w -o json": how a backup is now. One that has left the queue has the phase in which it
// is since, or is deleted.
type QueueChange struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Time       string `json:"time"` // when it was seen, RFC 3339
	QueueItem
	Deleted bool `json:"deleted,omitempty"`
}

// text is the change for people, without its time.
func (c *QueueChange) Text() string {
	switch {
	case c.Deleted:
		return c.Name + ": deleted"
	case c.Position > 0:
		text := fmt.Sprintf("%s: %s, place %d", c.Name, c.Phase, c.Position)
		if why := c.why(); why != "" {
			text += ": " + why
		}
		return text
	default:
		return c.Name + ": " + c.Phase
	}
}

// newChange is a change to b, which may be nil.
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

// inLine tells whether a backup runs, is about to, or waits.
func InQueue(b *velerov1.Backup) bool {
	line := queue.NewLine([]*velerov1.Backup{b})
	return len(line.Running)+len(line.Ready)+len(line.Queued) > 0
}
