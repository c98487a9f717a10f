package backupqueue

import (
	"context"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/run"
)

// view is the Backups as the queue sees them: those of the cache, but for what the cache does not show yet. What the
// queue has written itself is never older than it wrote it; and when it cannot know, at its start and after a write
// that failed, it reads from the API server.
//
// So a decision may find a backup's end a moment late, which wakes the queue when it shows, but never a place free that
// is taken.
type view struct {
	writing sync.Mutex // held during a write: the cache may tell of it before the API server has answered

	mu      sync.Mutex
	certain bool // nothing was written that is not in known or in the cache
	known   map[types.UID]*velerov1.Backup
	gone    map[types.UID]bool // the cache still shows them
}

// backups are all Backups. They are read only.
func (v *view) backups(ctx context.Context, c *run.Cluster) ([]*velerov1.Backup, error) {
	asOf, err := v.ascertain(ctx, c)
	if err != nil {
		return nil, err
	}
	var list velerov1.BackupList
	if err := c.List(ctx, &list, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	backups := make([]*velerov1.Backup, 0, len(list.Items))
	still, gone := make(map[types.UID]*velerov1.Backup, len(v.known)), map[types.UID]bool{}
	for i := range list.Items {
		b := &list.Items[i]
		known := v.known[b.UID]
		switch {
		case v.gone[b.UID], known == nil && asOf != "" && isOlder(b.ResourceVersion, asOf):
			gone[b.UID] = true
			continue
		case known != nil && older(b, known):
			b, still[b.UID] = known, known
		}
		backups = append(backups, b)
	}
	v.known, v.gone = still, gone // the cache has caught up with the others, or they are gone
	return backups, nil
}

// ascertain reads all Backups from the API server, unless there is no need to. It answers the version of all at which it
// has: what is older and was not among them is gone.
func (v *view) ascertain(ctx context.Context, c *run.Cluster) (asOf string, err error) {
	v.mu.Lock()
	certain := v.certain
	v.mu.Unlock()
	if certain {
		return "", nil
	}
	var list velerov1.BackupList
	if err := c.Live.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.certain, v.known = true, make(map[types.UID]*velerov1.Backup, len(list.Items))
	for i := range list.Items {
		v.known[list.Items[i].UID] = &list.Items[i]
	}
	return list.ResourceVersion, nil
}

// doubt has the next look ask the API server.
func (v *view) doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.certain = false
}

// wrote notes a Backup as the queue has left it.
func (v *view) wrote(b *velerov1.Backup) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[types.UID]*velerov1.Backup{}
	}
	v.known[b.UID] = b
}

// isOwn tells whether b is as the queue has left it, or from before that: what the queue has written builds on it.
func (v *view) isOwn(b *velerov1.Backup) bool {
	v.writing.Lock()
	defer v.writing.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.known[b.UID]
	return known != nil && (known.ResourceVersion == b.ResourceVersion || older(b, known))
}

// older tells whether a is an earlier state than b of the same object.
func older(a, b *velerov1.Backup) bool { return isOlder(a.ResourceVersion, b.ResourceVersion) }

// isOlder tells whether a is an earlier version than b. Versions are numbers that grow; the API server promises so.
func isOlder(a, b string) bool {
	versionA, errA := strconv.ParseUint(a, 10, 64)
	versionB, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && versionA < versionB
}
