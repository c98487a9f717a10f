package queue

import (
	"cmp"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Line is the queue at one moment. The Backups are read only.
type Line struct {
	// Queued are the Queued and New backups in the order of the queue.
	Queued []*velerov1.Backup
	// Ready and Running hold the slots, the oldest first.
	Ready   []*velerov1.Backup
	Running []*velerov1.Backup
	// Operating hold no slots, but operations of plugins still work on their namespaces; the oldest first.
	Operating []*velerov1.Backup
	// Restoring are the restores that run, the oldest first. They are not of the queue, but a policy may keep backups
	// apart from them.
	Restoring []*velerov1.Restore
	// Aside has the queued backups that cannot start, whatever the policy decides, by name, with the reason. They keep
	// their positions, and others may overtake them. The policy does not get them.
	Aside map[string]Reason
}

// Reason is why a backup is set aside.
type Reason struct {
	Reason  string // for programs, UpperCamelCase
	Message string // for people, one line
}

// Considered returns the line as the policy sees it.
func (l Line) Considered() Line {
	if len(l.Aside) == 0 {
		return l
	}
	considered := l
	considered.Queued = slices.DeleteFunc(slices.Clone(l.Queued), l.isAside)
	return considered
}

func (l Line) isAside(b *velerov1.Backup) bool {
	_, aside := l.Aside[b.Name]
	return aside
}

// NewLine sorts backups into a line, without restores. It leaves out backups that are being deleted, unless they run:
// they are never started.
//
// Queued backups are in the order of their positions. Of two backups with the same position the older one comes first;
// backups without a valid position follow. New backups come last, the oldest first.
func NewLine(backups []*velerov1.Backup) Line {
	var line Line
	var entering []*velerov1.Backup
	for _, b := range backups {
		deleted := b.DeletionTimestamp != nil
		switch phase := velerov1.PhaseOf(b); {
		case phase == velerov1.BackupPhaseInProgress:
			line.Running = append(line.Running, b)
		case deleted:
		case Occupies(b):
			line.Operating = append(line.Operating, b)
		case phase != velerov1.BackupPhaseQueued && Waits(b):
			entering = append(entering, b)
		case phase == velerov1.BackupPhaseQueued:
			line.Queued = append(line.Queued, b)
		case phase == velerov1.BackupPhaseReadyToStart:
			line.Ready = append(line.Ready, b)
		}
	}
	slices.SortFunc(line.Running, byAge)
	slices.SortFunc(line.Operating, byAge)
	slices.SortFunc(line.Ready, byAge)
	slices.SortFunc(entering, byAge)
	slices.SortFunc(line.Queued, func(a, b *velerov1.Backup) int {
		return cmp.Or(cmp.Compare(position(a), position(b)), byAge(a, b))
	})
	line.Queued = append(line.Queued, entering...)
	return line
}

// position returns the position of a backup in its status, or the largest number without a valid one.
func position(b *velerov1.Backup) int {
	if b.Status.QueuePosition < 1 || velerov1.IsAsCreated(b) {
		return int(^uint(0) >> 1)
	}
	return b.Status.QueuePosition
}

// byAge compares backups by their creation, which has whole seconds, and then by name.
func byAge(a, b *velerov1.Backup) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// InLine reports whether a backup waits for its turn or holds a slot.
func InLine(b *velerov1.Backup) bool {
	phase := velerov1.PhaseOf(b)
	return Waits(b) || phase == velerov1.BackupPhaseReadyToStart || phase == velerov1.BackupPhaseInProgress
}

// Waits reports whether a backup waits for its turn, or is about to. A dry run does not.
func Waits(b *velerov1.Backup) bool {
	switch velerov1.PhaseOf(b) {
	case velerov1.BackupPhaseNew:
		return !velerov1.IsDryRun(b)
	case velerov1.BackupPhaseQueued:
		return true
	default:
		return false
	}
}
