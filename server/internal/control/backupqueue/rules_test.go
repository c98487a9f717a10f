package backupqueue

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// This file implements the rules of the queue a second time, as simply as possible, as the reference for the tests. It
// shares only settings with the queue, no code.

// queueRules checks the rules for a limit of running backups and the existing namespaces.
type queueRules struct {
	limit      int
	exact      queue.Exact
	namespaces []string // the existing ones
}

// takes reports whether a backup includes a namespace, which need not exist.
func (queueRules) takes(b *velerov1.Backup, namespace string) bool {
	matches := func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return err == nil && matched
	}
	included := len(b.Spec.IncludedNamespaces) == 0 || slices.ContainsFunc(b.Spec.IncludedNamespaces, matches)
	return included && !slices.ContainsFunc(b.Spec.ExcludedNamespaces, matches)
}

func takesAll(b *velerov1.Backup) bool {
	return len(b.Spec.IncludedNamespaces) == 0 || slices.Contains(b.Spec.IncludedNamespaces, "*")
}

// named returns the namespaces that a backup includes, among those that exist or that one of the backups names.
func (r queueRules) named(b *velerov1.Backup, others ...*velerov1.Backup) []string {
	candidates := slices.Clone(r.namespaces)
	for _, other := range append(others, b) {
		for _, name := range other.Spec.IncludedNamespaces {
			if !strings.ContainsAny(name, "*?[") && (takesAll(b) || slices.Contains(b.Spec.IncludedNamespaces, name)) {
				candidates = append(candidates, name)
			}
		}
	}
	return slices.DeleteFunc(candidates, func(name string) bool { return !r.takes(b, name) })
}

// overlap reports whether two backups must not run at once. A backup of all namespaces overlaps even one of none.
func (r queueRules) overlap(a, b *velerov1.Backup) bool {
	if takesAll(b) {
		a, b = b, a
	}
	ofA, ofB := r.named(a, b), r.named(b, a)
	if takesAll(a) && (takesAll(b) || len(ofB) == 0) {
		return true
	}
	return slices.ContainsFunc(ofA, func(name string) bool { return slices.Contains(ofB, name) })
}

func holds(b *velerov1.Backup) bool {
	return b.Status.Phase == velerov1.BackupPhaseInProgress ||
		b.Status.Phase == velerov1.BackupPhaseReadyToStart && b.DeletionTimestamp == nil
}

func isQueued(b *velerov1.Backup) bool {
	return b.Status.Phase == velerov1.BackupPhaseQueued && b.DeletionTimestamp == nil
}

// before reports whether a is ahead of b in the queue: by position, then by age.
func before(a, b *velerov1.Backup) bool {
	position := func(b *velerov1.Backup) int {
		if b.Status.QueuePosition < 1 {
			return 1 << 62
		}
		return b.Status.QueuePosition
	}
	return cmp.Or(cmp.Compare(position(a), position(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name)) < 0
}

// admitted checks the admission of a backup. was is its state in the queue, others are all other backups.
func (r queueRules) admitted(was *velerov1.Backup, others []*velerov1.Backup) error {
	slots := 1
	for _, other := range others {
		if holds(other) {
			slots++
			if r.overlap(was, other) {
				return fmt.Errorf("%s is admitted and overlaps %s, which is %s", was.Name, other.Name, other.Status.Phase)
			}
		}
		if isQueued(other) && before(other, was) && r.overlap(was, other) {
			return fmt.Errorf("%s (position %d) overtakes %s (position %d), which it overlaps", was.Name,
				was.Status.QueuePosition, other.Name, other.Status.QueuePosition)
		}
	}
	if slots > r.limit {
		return fmt.Errorf("%s is admitted, so %d of %d slots are taken", was.Name, slots, r.limit)
	}
	return nil
}

// settled checks an idle queue: no backup waits without need, the positions are 1 to n, and each waiting backup has
// the right reason.
func (r queueRules) settled(all []*velerov1.Backup) error {
	var queued, ahead []*velerov1.Backup
	slots := 0
	for _, b := range all {
		switch {
		case run.BackupPhase(b) == velerov1.BackupPhaseNew && b.DeletionTimestamp == nil:
			return fmt.Errorf("%s is not in the queue", b.Name)
		case isQueued(b):
			queued = append(queued, b)
		case holds(b):
			slots++
			ahead = append(ahead, b)
		}
	}
	slices.SortFunc(queued, func(a, b *velerov1.Backup) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	for i, b := range queued {
		says, is := b.Status.QueuePosition, i+1
		if exact := len(queued) <= r.exact.All || i < r.exact.Front; says != is && (exact || says >= 4*is || is >= 4*says) {
			return fmt.Errorf("%s is at position %d of the queue and its status says %d", b.Name, is, says)
		}
		overlaps := slices.ContainsFunc(ahead, func(other *velerov1.Backup) bool { return r.overlap(b, other) })
		if !overlaps && slots < r.limit {
			return fmt.Errorf("%s waits at position %d and could run: %d of %d slots are taken", b.Name, i+1, slots, r.limit)
		}
		wait, err := velerov1.QueueWaitOf(b)
		if err != nil || wait == nil {
			return fmt.Errorf("%s has no reason to wait (%v)", b.Name, err)
		}
		if want := map[bool]string{true: "NamespaceOverlap", false: "Limit"}[overlaps]; wait.Reason != want {
			return fmt.Errorf("%s has reason %s, want %s", b.Name, wait.Reason, want)
		}
		ahead = append(ahead, b)
	}
	return nil
}
