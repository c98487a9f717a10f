package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientdiscovery "k8s.io/client-go/discovery"
)

// MaxAge is the age at which Helper.Snapshot replaces the cached snapshot.
const MaxAge = 5 * time.Minute

// Helper takes snapshots of an API server and caches the last one. It is safe for concurrent use.
type Helper struct {
	client clientdiscovery.DiscoveryInterfaceWithContext
	log    hclog.Logger
	now    func() time.Time

	mu    sync.Mutex // held during discovery, so that concurrent callers share one snapshot
	last  *Snapshot
	taken time.Time
}

// New returns a helper for an API server. It does not call the server yet.
func New(client clientdiscovery.DiscoveryInterface, log hclog.Logger) *Helper {
	return &Helper{client: clientdiscovery.ToDiscoveryInterfaceWithContext(client), log: log, now: time.Now}
}

// Snapshot returns the last snapshot if it is younger than MaxAge, and a new one otherwise.
func (h *Helper) Snapshot(ctx context.Context) (*Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && h.now().Sub(h.taken) < MaxAge {
		return h.last, nil
	}
	return h.refresh(ctx)
}

// Refresh takes a new snapshot, for example after custom resource definitions were created. It omits groups that cannot be
// discovered, such as those of an aggregated API server that is down, and names them in the snapshot's warnings. After any
// other failure it returns an error and keeps the last snapshot.
func (h *Helper) Refresh(ctx context.Context) (*Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refresh(ctx)
}

func (h *Helper) refresh(ctx context.Context) (*Snapshot, error) {
	groups, lists, err := h.client.ServerGroupsAndResourcesWithContext(ctx)
	warnings, err := failedGroups(err)
	if err != nil {
		return nil, fmt.Errorf("discover the resources of the API server: %w", err)
	}
	for _, w := range warnings {
		h.log.Warn(w)
	}
	h.last, h.taken = NewSnapshot(groups, lists, warnings...), h.now()
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
		warnings = append(warnings, fmt.Sprintf("API group %s could not be discovered, its objects are left out: %v", gv, cause))
	}
	slices.Sort(warnings)
	return warnings, nil
}
