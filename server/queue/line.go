package queue

import (
	"cmp"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Line is the queue as the Backups have it at one moment. The Backups are read only.
type Line struct {
	// Queued are those that wait, and those that are New and will, in the queue's order.
	Queued []*velerov1.Backup
	// Ready and Running hold the places, the oldest first.
	Ready   []*velerov1.Backup
	Running []*velerov1.Backup
}

// NewLine sorts backups into a line. Those that are being deleted wait no more and, unless they run, hold no place:
// nobody starts them.
//
// Queued ones stand in the order of their positions; where a position was taken away or is wrong, or two are the same,
// the older one comes first. New ones follow, by age.
func NewLine(backups []*velerov1.Backup) Line {
	var line Line
	var entering []*velerov1.Backup
	for _, b := range backups {
		deleted := b.DeletionTimestamp != nil
		switch phase := b.Status.Phase; {
		case phase == velerov1.BackupPhaseInProgress:
			line.Running = append(line.Running, b)
		case deleted:
		case phase == "", phase == velerov1.BackupPhaseNew:
			entering = append(entering, b)
		case phase == velerov1.BackupPhaseQueued:
			line.Queued = append(line.Queued, b)
		case phase == velerov1.BackupPhaseReadyToStart:
			line.Ready = append(line.Ready, b)
		}
	}
	slices.SortFunc(line.Running, byAge)
	slices.SortFunc(line.Ready, byAge)
	slices.SortFunc(entering, byAge)
	slices.SortFunc(line.Queued, func(a, b *velerov1.Backup) int {
		return cmp.Or(cmp.Compare(position(a), position(b)), byAge(a, b))
	})
	line.Queued = append(line.Queued, entering...)
	return line
}

// position is a backup's place as its status has it; one without comes after all others.
func position(b *velerov1.Backup) int {
	if b.Status.QueuePosition < 1 {
		return int(^uint(0) >> 1)
	}
	return b.Status.QueuePosition
}

// byAge puts the older one first. Ages are in whole seconds, so the name decides within one.
func byAge(a, b *velerov1.Backup) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// InLine reports whether a backup waits for its turn or holds a slot.
func InLine(b *velerov1.Backup) bool {
	return Waits(b) || b.Status.Phase == velerov1.BackupPhaseReadyToStart || b.Status.Phase == velerov1.BackupPhaseInProgress
}

// Waits reports whether a backup waits for its turn, or is about to.
func Waits(b *velerov1.Backup) bool {
	switch b.Status.Phase {
	case "", velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued:
		return true
	default:
		return false
	}
}
