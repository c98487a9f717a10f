package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	clientdiscovery "k8s.io/client-go/discovery"
)

// Helper takes snapshots of an API server. It is safe for concurrent use.
type Helper struct {
	client clientdiscovery.DiscoveryInterfaceWithContext
	log    hclog.Logger
	begun  atomic.Uint64 // the number of discoveries that have begun

	turn   chan struct{} // has an element during a discovery; guards what follows
	last   *Snapshot
	number uint64 // of the discovery that last is of
	began  time.Time
}

// New returns a helper for an API server. It does not call the server yet.
func New(client clientdiscovery.DiscoveryInterface, log hclog.Logger) *Helper {
	return &Helper{client: clientdiscovery.ToDiscoveryInterfaceWithContext(client), log: log, turn: make(chan struct{}, 1)}
}

// Snapshot returns the resources that the API server serves now: no part of it is older than the call. Callers that
// arrive during a discovery share the next one. Snapshot omits groups that cannot be discovered, such as those of an
// aggregated API server that is down, and names them in the snapshot's warnings.
func (h *Helper) Snapshot(ctx context.Context) (*Snapshot, error) {
	before := h.begun.Load()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.number > before {
		return h.last, nil
	}
	return h.discover(ctx)
}

// recent is how old what Recent returns may be.
const recent = time.Second

// Recent is Snapshot for callers for whom the last one does as well, if it is not older than a second: thousands of
// backups may be deleted one after the other.
func (h *Helper) Recent(ctx context.Context) (*Snapshot, error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	last, began := h.last, h.began
	<-h.turn
	if last != nil && time.Since(began) < recent {
		return last, nil
	}
	return h.Snapshot(ctx)
}

// settling is how long a definition that was just installed may take until it is served.
const settling = time.Second

// SnapshotWith is Snapshot for a caller that has names of resources to resolve. If it cannot resolve one, it looks
// again a moment later: the definition may just have been installed.
func (h *Helper) SnapshotWith(ctx context.Context, names []string) (*Snapshot, error) {
	s, err := h.Snapshot(ctx)
	if err != nil || !slices.ContainsFunc(names, s.lacks) {
		return s, err
	}
	select {
	case <-time.After(settling):
		return h.Snapshot(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *Helper) discover(ctx context.Context) (*Snapshot, error) {
	number, began := h.begun.Add(1), time.Now()
	groups, lists, err := h.client.ServerGroupsAndResourcesWithContext(ctx)
	warnings, err := failedGroups(err)
	if err != nil {
		return nil, fmt.Errorf("discover the resources of the API server: %w", err)
	}
	for _, w := range warnings {
		h.log.Warn(w)
	}
	h.last, h.number, h.began = NewSnapshot(groups, lists, warnings...), number, began
	return h.last, nil
}

// failedGroups returns a warning for each group that discovery has failed for, or err if it has failed altogether.
func failedGroups(err error) ([]string, error) {
	var partial *clientdiscovery.ErrGroupDiscoveryFailed
	if !errors.As(err, &partial) {
		return nil, err
	}
	var warnings []string
	for gv, cause := range partial.Groups {
		warnings = append(warnings, fmt.Sprintf("API group %s could not be discovered, its objects are left out: %v", gv,
			cause))
	}
	slices.Sort(warnings)
	return warnings, nil
}
