package backupqueue

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/run"
)

// This file is the queue's rules once more, as the requirement has them and as simply as they can be said, for the tests
// to hold the queue against. It shares nothing with the queue.

// queueRules are the rules, and what they depend on.
type queueRules struct {
	limit      int
	namespaces []string // that exist
}

// takes tells whether a backup takes a namespace, which need not exist.
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

// named are the namespaces that a backup takes, of those that exist or that anybody names.
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

// overlap tells whether two backups must not run at once. One of all namespaces overlaps even one that takes none.
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

// holds tells whether a backup has one of the places.
func holds(b *velerov1.Backup) bool {
	return b.Status.Phase == velerov1.BackupPhaseInProgress ||
		b.Status.Phase == velerov1.BackupPhaseReadyToStart && b.DeletionTimestamp == nil
}

func isQueued(b *velerov1.Backup) bool {
	return b.Status.Phase == velerov1.BackupPhaseQueued && b.DeletionTimestamp == nil
}

// before tells whether a stands before b in the queue: by position, of the same by age.
func before(a, b *velerov1.Backup) bool {
	place := func(b *velerov1.Backup) int {
		if b.Status.QueuePosition < 1 {
			return 1 << 62
		}
		return b.Status.QueuePosition
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// admitted holds the moment in which a backup got its place: was is how it stood in the queue, others are all others.
func (r queueRules) admitted(was *velerov1.Backup, others []*velerov1.Backup) error {
	places := 1
	for _, other := range others {
		if holds(other) {
			places++
			if r.overlap(was, other) {
				return fmt.Errorf("%s gets a place and overlaps %s, which is %s", was.Name, other.Name, other.Status.Phase)
			}
		}
		if isQueued(other) && before(other, was) && r.overlap(was, other) {
			return fmt.Errorf("%s (place %d) overtakes %s (place %d), which it overlaps", was.Name, was.Status.QueuePosition, other.Name, other.Status.QueuePosition)
		}
	}
	if places > r.limit {
		return fmt.Errorf("%s gets a place, and there are %d of %d taken", was.Name, places, r.limit)
	}
	return nil
}

// settled holds a moment in which nothing is left to do: nobody waits who could run, the places are 1 to n, and whoever
// waits says why.
func (r queueRules) settled(all []*velerov1.Backup) error {
	var queue, ahead []*velerov1.Backup
	places := 0
	for _, b := range all {
		switch {
		case run.BackupPhase(b) == velerov1.BackupPhaseNew && b.DeletionTimestamp == nil:
			return fmt.Errorf("%s is not in the queue", b.Name)
		case isQueued(b):
			queue = append(queue, b)
		case holds(b):
			places++
			ahead = append(ahead, b)
		}
	}
	slices.SortFunc(queue, func(a, b *velerov1.Backup) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	for i, b := range queue {
		if b.Status.QueuePosition != i+1 {
			return fmt.Errorf("%s is at place %d of the queue and says %d", b.Name, i+1, b.Status.QueuePosition)
		}
		overlaps := slices.ContainsFunc(ahead, func(other *velerov1.Backup) bool { return r.overlap(b, other) })
		if !overlaps && places < r.limit {
			return fmt.Errorf("%s waits at place %d and could run: %d of %d places are taken", b.Name, i+1, places, r.limit)
		}
		wait, err := velerov1.QueueWaitOf(b)
		if err != nil || wait == nil {
			return fmt.Errorf("%s does not say why it waits (%w)", b.Name, err)
		}
		if want := map[bool]string{true: "NamespaceOverlap", false: "Limit"}[overlaps]; wait.Reason != want {
			return fmt.Errorf("%s says that it waits for %s, and it waits for %s", b.Name, wait.Reason, want)
		}
		ahead = append(ahead, b)
	}
	return nil
}
