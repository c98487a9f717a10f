package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
)

// view is a snapshot of the cache and the ledger, for one pass.
type view struct {
	now    time.Time
	ledger ledger.Ledger
	fresh  []*load // that are New, the oldest first
	// preparing are the loads that are Accepted or Prepared.
	preparing []*load
	// not created by a run of the server, or being deleted with a finalizer of agents after their end
	refused []*load
	seen    map[types.UID]ledger.Seen
	gone    map[types.UID]bool // loads that were deleted
	counts  counts
	// Agents of Velero run in the namespace. It is looked up when a load may be theirs.
	besideVelero bool
}

// look reads the cache.
func (q *admission) look(ctx context.Context) (*view, error) {
	v := &view{now: q.Now(), seen: map[types.UID]ledger.Seen{}, counts: counts{}}
	var err error
	if v.ledger, err = q.book.read(ctx, q.Agent); err != nil {
		return nil, err
	}
	v.gone = q.gone(v.now)
	for _, k := range q.kinds {
		loads, err := q.loads(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, l := range loads {
			if l.proof.refused != "" && l.isVeleros() && !v.besideVelero {
				if v.besideVelero, err = q.besideVelero(ctx, v.now); err != nil {
					return nil, err
				}
			}
			q.add(v, l)
		}
	}
	slices.SortFunc(v.fresh, (*load).compare)
	old := func(uid types.UID) bool { return !v.seen[uid].Phase.IsNew() || v.seen[uid].Version == "" }
	maps.DeleteFunc(q.waiting, func(uid types.UID, _ *waiting) bool { return old(uid) })
	maps.DeleteFunc(q.described, func(uid types.UID, _ described) bool { return old(uid) })
	maps.DeleteFunc(q.accepted, func(uid types.UID, _ string) bool { return old(uid) })
	for uid, note := range v.ledger.Loads {
		switch q.state(v, uid, note) {
		case ledger.Pending, ledger.Unknown:
			v.counts.add(counted{
				Kind: note.Kind, Node: note.Node, StorageClass: note.StorageClass, Namespace: note.Namespace, Owner: note.Owner,
				bytes: note.Bytes,
			}, false)
		}
	}
	return v, nil
}

// add adds a load to a view.
func (q *admission) add(v *view, l *load) {
	uid := l.GetUID()
	v.seen[uid] = ledger.Seen{Phase: l.phase(), Version: l.GetResourceVersion()}
	ended := l.phase().Terminal()
	switch {
	case ended && l.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(l.Object, l.finalizer):
		v.refused = append(v.refused, l)
		return
	case !ended && l.proof.refused != "" && (!v.besideVelero || !q.leaves(v, l) || l.phase().IsNew()):
		// otherwise it counts, as a load of one of Velero's agents
		v.seen[uid] = ledger.Seen{Phase: velerov1.LoadPhaseFailed, Version: l.GetResourceVersion()}
		v.refused = append(v.refused, l)
		return
	}
	switch l.phase() {
	case velerov1.LoadPhaseNew:
		if written := q.accepted[uid]; written == "" || ledger.Newer(l.GetResourceVersion(), written) {
			delete(q.accepted, uid) // it is New again because it was edited
			v.fresh = append(v.fresh, l)
		}
	case velerov1.LoadPhaseAccepted, velerov1.LoadPhasePrepared:
		v.preparing = append(v.preparing, l)
		v.counts.add(l.counted(cmp.Or(l.node(), l.acceptedBy())), l.phase() == velerov1.LoadPhasePrepared)
	}
}

// state returns the state of a note in a view.
func (q *admission) state(v *view, uid types.UID, note ledger.Note) ledger.State {
	if q.book.isExpired(uid, note) {
		return ledger.Void
	}
	seen, known := v.seen[uid]
	if !known {
		return note.State(nil, v.gone[uid])
	}
	return note.State(&seen, false)
}

// permits reports whether a note permits a load to become Accepted.
func (v *view) permits(l *load) bool {
	note, noted := v.ledger.Loads[l.GetUID()]
	return noted && note.Version == l.GetResourceVersion()
}

// gone returns the loads whose deletion was seen. It drops the loads that no cached ledger can contain any more.
func (q *admission) gone(now time.Time) map[types.UID]bool {
	const keep = 10 * time.Minute
	q.mu.Lock()
	defer q.mu.Unlock()
	gone := make(map[types.UID]bool, len(q.deleted))
	for uid, at := range q.deleted {
		if now.Sub(at) > keep {
			delete(q.deleted, uid)
			continue
		}
		gone[uid] = true
	}
	return gone
}

// counted holds the properties by which loads are counted.
type counted struct {
	Kind, Node, StorageClass, Namespace, Owner string

	bytes int64
}

// counted returns the properties by which a load is counted.
func (l *load) counted(node string) counted {
	return counted{
		Kind: l.name, Node: node, StorageClass: l.spec.storageClass, Namespace: l.spec.namespace, Owner: l.owner(),
		bytes: l.spec.bytes,
	}
}

// counts are the loads that are being prepared.
type counts map[counted]loadsoothing.Count

func (c counts) add(of counted, prepared bool) {
	bytes := of.bytes
	of.bytes = 0
	count := c[of]
	count.Kind, count.Node, count.StorageClass, count.Namespace, count.Owner = of.Kind, of.Node, of.StorageClass,
		of.Namespace, of.Owner
	count.Bytes += bytes
	if prepared {
		count.Prepared++
	} else {
		count.Accepted++
	}
	c[of] = count
}

// list returns the counts in a fixed order.
func (c counts) list() []loadsoothing.Count {
	return slices.SortedFunc(maps.Values(c), func(a, b loadsoothing.Count) int {
		return cmp.Or(
			strings.Compare(a.Kind, b.Kind), strings.Compare(a.Node, b.Node), strings.Compare(a.StorageClass, b.StorageClass),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Owner, b.Owner),
		)
	})
}

// key returns a string that is the same for the same counts. It is never empty.
func (c counts) key() string { return fmt.Sprint(c.list()) }
