package backupqueue

import (
	"context"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// view is the queue's view of the Backups: the cache, corrected by the queue's own writes that are not in the cache
// yet. At the start and after a failed write, the queue reads from the API server.
//
// So a decision may learn of the end of a backup late, with an event for the next decision, but it never counts a
// taken slot as free.
type view struct {
	writing sync.Mutex // held during a write: the event may arrive before the reply

	mu      sync.Mutex
	certain bool // all writes are in known or in the cache
	known   map[types.UID]known
	deleted map[types.UID]bool // the cache still has them
}

// known is a state that may not be in the cache yet.
type known struct {
	*velerov1.Backup
	// own reports whether the queue has written the state. If the queue has only read it, the state may be missing in
	// the list for the current decision, so its event has to cause another decision.
	own bool
}

// backups returns all Backups. The caller must not change them.
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
	stillKnown, stillDeleted := make(map[types.UID]known, len(v.known)), map[types.UID]bool{}
	for i := range list.Items {
		b := &list.Items[i]
		known, ok := v.known[b.UID]
		switch {
		case v.deleted[b.UID], !ok && asOf != "" && isOlder(b.ResourceVersion, asOf):
			stillDeleted[b.UID] = true
			continue
		case ok && older(b, known.Backup):
			b, stillKnown[b.UID] = known.Backup, known
		}
		backups = append(backups, b)
	}
	v.known, v.deleted = stillKnown, stillDeleted // the cache has caught up with all others
	return backups, nil
}

// ascertain reads all Backups from the API server if necessary. It then returns the version of the list: older Backups
// that are not in the list were deleted.
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
	v.certain, v.known = true, make(map[types.UID]known, len(list.Items))
	for i := range list.Items {
		v.known[list.Items[i].UID] = known{Backup: &list.Items[i]}
	}
	return list.ResourceVersion, nil
}

// doubt makes the next call of backups read from the API server.
func (v *view) doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.certain = false
}

// wrote records a write of the queue.
func (v *view) wrote(b *velerov1.Backup) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[types.UID]known{}
	}
	v.known[b.UID] = known{b, true}
}

// isOwn reports whether b is the result of the queue's last write to it, or older.
func (v *view) isOwn(b *velerov1.Backup) bool {
	v.writing.Lock()
	defer v.writing.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.known[b.UID]
	return known.own && (known.ResourceVersion == b.ResourceVersion || older(b, known.Backup))
}

// older reports whether a is an earlier state of the same object than b.
func older(a, b *velerov1.Backup) bool { return isOlder(a.ResourceVersion, b.ResourceVersion) }

// isOlder reports whether a is an earlier resource version than b. Resource versions are increasing numbers.
func isOlder(a, b string) bool {
	versionA, errA := strconv.ParseUint(a, 10, 64)
	versionB, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && versionA < versionB
}
