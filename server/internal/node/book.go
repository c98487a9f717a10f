package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/node/ledger"
)

// book holds the newest known state of the ledger, and the notes that have had no effect for a while.
type book struct {
	newest   *corev1.ConfigMap
	suspects map[types.UID]suspect
	strange  string // the last warning about entries that no agent has written
}

// suspect is a note that has had no effect for a while.
type suspect struct {
	note    ledger.Note
	since   time.Time
	expired bool // the note can be dropped
}

// read returns the newest known ledger.
func (b *book) read(ctx context.Context, a *Agent) (ledger.Ledger, error) {
	var cached corev1.ConfigMap
	key := client.ObjectKey{Namespace: a.Namespace, Name: ledger.Name}
	err := a.Get(ctx, key, &cached)
	switch {
	case apierrors.IsNotFound(err):
		cached = corev1.ConfigMap{}
		cached.Namespace, cached.Name = key.Namespace, key.Name
		if b.newest != nil && b.newest.ResourceVersion != "" {
			break // not in the cache yet, or deleted: the next write finds out
		}
		b.newest = &cached
	case err != nil:
		return ledger.Ledger{}, err
	case b.newest == nil || ledger.Newer(cached.ResourceVersion, b.newest.ResourceVersion):
		b.newest = &cached
	}
	signer, err := a.Signing.Get(ctx)
	if err != nil {
		return ledger.Ledger{}, err
	}
	l, strange := ledger.Read(b.newest, signer)
	if strange != nil && strange.Error() != b.strange {
		b.strange = strange.Error()
		a.Log.Warn("the ledger of node agents has entries that no agent has written; they are dropped", "error", strange)
	}
	return l, nil
}

// write replaces the ledger. done is false if another agent has changed the ledger meanwhile.
func (b *book) write(ctx context.Context, a *Agent, l ledger.Ledger) (done bool, err error) {
	signer, err := a.Signing.Get(ctx)
	if err != nil {
		return false, err
	}
	cm, err := l.ConfigMap(b.newest, signer)
	if err != nil {
		return false, err
	}
	if cm.ResourceVersion == "" {
		err = a.Create(ctx, cm)
	} else {
		err = a.Update(ctx, cm)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err): // it was deleted or replaced
		b.newest = nil
		return false, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write the ledger of node agents, ConfigMap %s: %w", ledger.Name, err)
	}
	b.newest = cm
	return true, nil
}

func (b *book) isExpired(uid types.UID, note ledger.Note) bool {
	s, known := b.suspects[uid]
	return known && s.expired && s.note == note
}

// register adds this process to the list of agents.
func (q *admission) register(ctx context.Context, v *view) (done bool, err error) {
	if v.ledger.Agents[q.Node] == q.Identity {
		return true, nil
	}
	next := q.pruned(v)
	next.Agents[q.Node] = q.Identity
	if done, err = q.book.write(ctx, q.Agent, next); done {
		v.ledger = next
	}
	return done, err
}

// reserve writes the note of a load that the policy has admitted. done is false if another agent has written the
// ledger meanwhile. The policy is then asked again.
func (q *admission) reserve(ctx context.Context, v *view, l *load) (done bool, err error) {
	next := q.pruned(v)
	if len(next.Loads) >= ledger.MaxNotes {
		return false, fmt.Errorf("%d loads are being prepared, which is as many as the ledger of node agents can hold",
			ledger.MaxNotes)
	}
	former, noted := v.ledger.Loads[l.GetUID()]
	counted := noted && q.state(v, l.GetUID(), former) != ledger.Void
	next.Loads[l.GetUID()] = l.note(q.Node)
	next.Agents[q.Node] = q.Identity
	if done, err = q.book.write(ctx, q.Agent, next); done {
		if !counted {
			v.counts.add(l.counted(q.Node), false)
		}
		v.ledger = next
	}
	return done, err
}

// pruned returns the ledger without void notes. If no agent has written the ConfigMap, or there is none, pruned adds
// notes of the loads that are being prepared, because other agents may not have these loads in their caches yet.
func (q *admission) pruned(v *view) ledger.Ledger {
	pruned := v.ledger.Pruned(func(uid types.UID, note ledger.Note) ledger.State { return q.state(v, uid, note) })
	if q.book.newest.ResourceVersion == "" || v.ledger.Unproven {
		for _, l := range v.preparing {
			pruned.Loads[l.GetUID()] = l.note(l.acceptedBy())
		}
	}
	return pruned
}

// note returns the note of a load that the agent of a node admits.
func (l *load) note(node string) ledger.Note {
	about := l.counted(node)
	return ledger.Note{
		Kind: l.name, Name: l.GetName(), Version: l.GetResourceVersion(), Node: node,
		StorageClass: about.StorageClass, Namespace: about.Namespace, Owner: about.Owner, Bytes: l.spec.bytes,
	}
}

// suspect expires the notes that have had no effect for a while, for example because their agent was killed: the load
// is still New, or is not in the cache. If the load is New, it is changed, so that the note no longer permits a write
// of its agent. If it is not in the cache, it is read from the API server.
func (q *admission) suspect(ctx context.Context, v *view) {
	kept := map[types.UID]suspect{}
	for uid, note := range v.ledger.Loads {
		state := q.state(v, uid, note)
		known, isSuspect := q.book.suspects[uid]
		if isSuspect && known.note != note {
			isSuspect = false
		}
		switch {
		case isSuspect && known.expired:
			kept[uid] = known
		case state != ledger.Pending && state != ledger.Unknown:
		case !isSuspect:
			kept[uid] = suspect{note: note, since: v.now}
		case v.now.Sub(known.since) < patience:
			kept[uid] = known
		default:
			if err := q.expire(ctx, v, uid, note); err != nil {
				q.Log.Warn("a load that was admitted was not accepted", "kind", note.Kind, "name", note.Name, "node", note.Node,
					"error", err)
				known.since = v.now
			} else {
				known.expired = true
			}
			kept[uid] = known
		}
	}
	q.book.suspects = kept
}

// expire makes sure that a note can be dropped.
func (q *admission) expire(ctx context.Context, v *view, uid types.UID, note ledger.Note) error {
	for _, l := range v.fresh {
		if l.GetUID() != uid {
			continue
		}
		_, err := q.write(ctx, l, func(l *load) {
			l.status.Message = fmt.Sprintf("it was admitted, but the agent of node %s did not accept it", note.Node)
		})
		if apierrors.IsConflict(err) { // perhaps by the write of Accepted that the note permits
			return fmt.Errorf("%s %s has changed, but not yet in the cache", note.Kind, note.Name)
		}
		return client.IgnoreNotFound(err)
	}
	for _, k := range q.kinds {
		if k.name != note.Kind {
			continue
		}
		object := k.object()
		err := q.Live.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: note.Name}, object)
		if err == nil && object.GetUID() == uid {
			return fmt.Errorf("%s %s exists, but is not in the cache yet", note.Kind, note.Name)
		}
		return client.IgnoreNotFound(err)
	}
	return nil
}
