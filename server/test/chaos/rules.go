package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// rules checks each change of a Backup, in the order of the API server.
type rules struct {
	mu      sync.Mutex
	known   map[string]*velerov1.Backup
	changes int
	errs    []error
}

// follow starts a watch that bypasses all faults.
func follow(ctx context.Context, c client.WithWatch) (*rules, error) {
	r := &rules{known: map[string]*velerov1.Backup{}}
	w, err := c.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(roundtrip.Namespace))
	if err != nil {
		return nil, fmt.Errorf("watch backups: %w", err)
	}
	go func() {
		for ctx.Err() == nil {
			for event := range w.ResultChan() {
				if b, ok := event.Object.(*velerov1.Backup); ok {
					r.see(event.Type, b)
				}
			}
			// The API server ends a watch after half an hour or more. A new one begins with the present state.
			if w, err = c.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(roundtrip.Namespace)); err != nil {
				r.breach("watch backups again: %w", err)
				return
			}
		}
	}()
	return r, nil
}

func (r *rules) breach(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// see checks the rules for a change.
func (r *rules) see(kind watch.EventType, b *velerov1.Backup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	before := r.known[b.Name]
	if kind == watch.Deleted {
		delete(r.known, b.Name)
		return
	}
	r.known[b.Name] = b
	if before != nil && before.UID == b.UID && order(b.Status.Phase) < order(before.Status.Phase) {
		r.breach("backup %s goes back from %s to %s", b.Name, before.Status.Phase, b.Status.Phase)
	}
	if !running(b) {
		return
	}
	count := 0
	for _, other := range r.known {
		if !running(other) {
			continue
		}
		if count++; other.Name != b.Name && overlap(b, other) {
			r.breach("backups %s and %s, which overlap, are %s and %s at a time", b.Name, other.Name, b.Status.Phase,
				other.Status.Phase)
		}
	}
	if count > limit {
		r.breach("%d backups run with %s, want at most %d", count, b.Name, limit)
	}
}

// running reports whether a backup counts for the limit and for overlaps.
func running(b *velerov1.Backup) bool {
	return b.Status.Phase == velerov1.BackupPhaseReadyToStart || b.Status.Phase == velerov1.BackupPhaseInProgress
}

// order returns the position of a phase in the life of a backup.
func order(phase velerov1.BackupPhase) int {
	switch phase {
	case "", velerov1.BackupPhaseNew:
		return 0
	case velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart: // one that cannot start yet returns to the queue
		return 1
	case velerov1.BackupPhaseInProgress:
		return 3
	case velerov1.BackupPhaseDeleting:
		return 6
	default:
		if phase.Terminal() {
			return 5
		}
		return 4
	}
}

func overlap(a, b *velerov1.Backup) bool {
	return slices.ContainsFunc(a.Spec.IncludedNamespaces,
		func(name string) bool { return slices.Contains(b.Spec.IncludedNamespaces, name) })
}

// broken returns the broken rules.
func (r *rules) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf("%d changes of backups seen, %d rules broken\n", r.changes, len(r.errs))
	return errors.Join(r.errs...)
}
