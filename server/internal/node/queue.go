package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
)

const (
	// until the policy is asked again about a load, if its decision does not contain a time
	askAgain    = 5 * time.Second
	conflictLag = time.Second      // until the next pass after a write conflict with another agent, without an event
	patience    = 10 * time.Second // with the note of another agent for a load that stays New
	rewrite     = time.Minute      // until another reason of a waiting load is written
	reasonsOnce = 25               // reasons that one pass writes, so that admissions do not wait for them
	// moverPatience is how long a load that any agent can take waits for one that has its data mover, as during an upgrade
	moverPatience = time.Minute
)

// admission moves the New loads of the cluster to Accepted when it is this agent's turn, one pass after the other.
type admission struct {
	*Agent
	changed chan struct{} // has a buffer of one
	book    book
	turns   turns

	mu      sync.Mutex
	deleted map[types.UID]time.Time // loads whose deletion was seen

	// The fields below are used by passes only.
	waiting   map[types.UID]*waiting
	described map[types.UID]described
	veleros   veleros
	accepted  map[types.UID]string // resource version of the write of Accepted, until it is in the cache
}

// waiting is a New load that the policy has not admitted.
type waiting struct {
	reason  string
	counts  string    // for which the policy has decided, with the number of waiting restores
	again   time.Time // to ask, even if the counts are the same
	written time.Time // of the reason
}

func newAdmission(a *Agent) *admission {
	return &admission{
		Agent: a, changed: make(chan struct{}, 1), deleted: map[types.UID]time.Time{},
		waiting: map[types.UID]*waiting{}, described: map[types.UID]described{}, accepted: map[types.UID]string{},
		book:  book{suspects: map[types.UID]suspect{}},
		turns: turns{away: map[string]string{}},
	}
}

// watch triggers a pass when an object of a type changes.
func (q *admission) watch(ctx context.Context, mgr ctrl.Manager, object client.Object) error {
	informer, err := mgr.GetCache().GetInformer(ctx, object)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { q.wake() },
		UpdateFunc: func(before, after any) {
			if q.matters(before, after) {
				q.wake()
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if o, ok := object.(client.Object); ok {
				q.mu.Lock()
				q.deleted[o.GetUID()] = q.Now()
				q.mu.Unlock()
			}
			q.wake()
		},
	})
	return err
}

// matters reports whether a change can lead to an admission. Progress of a load cannot.
func (q *admission) matters(before, after any) bool {
	old, isObject := before.(client.Object)
	changed, _ := after.(client.Object)
	if !isObject {
		return true
	}
	for _, k := range q.kinds {
		if k.is(old) {
			return k.status(old).Phase != k.status(changed).Phase || k.status(changed).Phase.IsNew()
		}
	}
	return true
}

func (q *admission) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable.
func (q *admission) Start(ctx context.Context) error {
	for {
		after, err := q.pass(ctx)
		if err != nil && ctx.Err() == nil {
			q.Log.Warn("loads could not be admitted, will try again", "error", err)
			after = conflictLag
		}
		timer := time.NewTimer(after)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-q.changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pass processes all New loads, the oldest first. It returns the time until the next pass without an event.
func (q *admission) pass(ctx context.Context) (time.Duration, error) {
	v, err := q.look(ctx)
	if err != nil {
		return 0, err
	}
	if done, err := q.register(ctx, v); err != nil || !done {
		return conflictLag, err
	}
	q.suspect(ctx, v)
	next := v.now.Add(time.Minute)
	soon := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	var restores waitingRestores
	if q.Soothing != nil {
		restores = q.restoresWaiting(ctx, v)
	}
	var held error // by the failure policy
	var tell []*load
	for i, l := range v.fresh {
		turn := q.turn(ctx, v, l)
		mine := turn == q.Node
		end, unfit := q.unfit(l)
		if (end != nil || !unfit && q.Soothing == nil) && !mine && turn != "" {
			q.turns.yield(turn, v, l) // nothing but the other agent holds it up
			soon(v.now.Add(yieldFor))
			continue
		}
		if unfit {
			if mine && end != nil {
				_, err := q.end(ctx, l, *end)
				q.note(l, err)
			}
			continue
		}
		if q.Describe && mine {
			q.describe(ctx, l)
		}
		switch {
		case turn == "", held != nil && !mine:
			continue
		case q.Soothing == nil, mine && v.permits(l):
			q.finish(ctx, l)
			continue
		}
		w, beside := q.waits(l), restores.beside(l)
		if known := v.key(beside); held == nil && (w.counts != known || !v.now.Before(w.again)) {
			decision, err := q.ask(ctx, v, l, i, beside)
			var hold *policy.HeldError
			switch {
			case errors.As(err, &hold):
				held = err
			case err != nil:
				return 0, err
			case decision.Admitted && mine:
				delete(q.waiting, l.GetUID())
				if done, err := q.reserve(ctx, v, l); err != nil || !done {
					return conflictLag, err
				}
				q.finish(ctx, l)
				continue
			case decision.Admitted:
				if q.turns.yield(turn, v, l) {
					v.counts.add(l.counted(turn), false)
				}
				soon(v.now.Add(yieldFor))
				continue
			default:
				w.reason, w.counts, w.again = decision.Reason, known, v.now.Add(retryAfter(decision))
			}
		}
		if held != nil {
			w.reason, w.counts, w.again = held.Error(), "", v.now.Add(policy.RetryAfter)
		}
		soon(w.again)
		if mine {
			tell = append(tell, l)
		}
	}
	q.turns.settle()
	waiting := map[string]int{}
	for _, l := range tell {
		waiting[l.name]++
	}
	q.Metrics.wait(q.kinds, waiting)
	if more := q.refuse(ctx, v); q.tell(ctx, v, tell) || more {
		return 0, nil
	}
	if len(v.refused) > 0 {
		soon(v.now.Add(refuseAlone))
	}
	return max(0, next.Sub(q.Now())), nil
}

// unfit reports whether a New load cannot be accepted, and how it ends; end is nil for a load of another controller.
func (q *admission) unfit(l *load) (end *outcome, is bool) {
	_, missing := q.Movers.Find(l.spec.mover, hostpath.Volume{})
	switch {
	case missing != nil && (l.isForeign() ||
		l.podLabel != "" && q.Now().Sub(l.GetCreationTimestamp().Time) < moverPatience):
		return nil, true
	case l.cancelled():
		end = new(canceled(l))
	case q.refusal(l) != "":
		end = new(failed(q.refusal(l)))
	case l.spec.mover == "":
		end = new(failed(fmt.Sprintf("the node agents have no data mover for repositories of engine %q; only an agent of "+
			"Velero can move its data", cmp.Or(l.spec.engine, velerov1.RepositoryTypeKopia))))
	case missing != nil:
		end = new(failed(missing.Error()))
	}
	return end, end != nil
}

// ask calls the policy with a load. ahead is the number of older New loads. restores is the number of New loads of
// restores beside it.
func (q *admission) ask(ctx context.Context, v *view, l *load, ahead, restores int) (*loadsoothing.Decision, error) {
	about := l.counted(l.node())
	outcome, err := q.Soothing.Admit(ctx, &loadsoothing.Request{Input: loadsoothing.Input{
		Now: v.now, Limit: q.QueueLength, Counts: v.counts.list(),
		Load: loadsoothing.Load{
			Kind: l.name, Name: l.GetName(), Node: about.Node, Created: l.GetCreationTimestamp().Time, Ahead: ahead,
			StorageClass: about.StorageClass, Namespace: about.Namespace, Bytes: l.spec.bytes, Owner: about.Owner,
			RestoresWaiting: restores,
		},
	}})
	if err != nil {
		return nil, err
	}
	return outcome.Decision, nil
}

func retryAfter(decision *loadsoothing.Decision) time.Duration {
	if decision.RetryAfter > 0 {
		return decision.RetryAfter
	}
	return askAgain
}

// waits returns the entry of a waiting load.
func (q *admission) waits(l *load) *waiting {
	w := q.waiting[l.GetUID()]
	if w == nil {
		w = &waiting{}
		q.waiting[l.GetUID()] = w
	}
	return w
}

// finish moves a load to Accepted. If the write fails, the load stays New. If the load has changed, its note is void;
// otherwise the note permits the next attempt.
func (q *admission) finish(ctx context.Context, l *load) {
	why, err := q.backed(ctx, l)
	if why != "" {
		why = "no backup or restore of the server has its data moved: " + why
	} else if err == nil {
		why, err = q.rival(ctx, l)
	}
	if err == nil && why != "" {
		_, err = q.end(ctx, l, failed("refused: "+why))
		q.note(l, err)
		return
	}
	var after *load
	if err == nil {
		after, err = q.accept(ctx, l)
	}
	if err != nil {
		q.note(l, err)
		return
	}
	q.accepted[l.GetUID()] = after.GetResourceVersion()
	q.Log.Info("load accepted", "kind", l.name, "name", l.GetName())
}

// note logs that a load could not be written. Other loads are still admitted.
func (q *admission) note(l *load, err error) {
	if err != nil && !superseded(err) {
		q.Log.Warn("a New load could not be written, will try again", "kind", l.name, "name", l.GetName(), "error", err)
	}
}

// tell writes the reasons why loads wait into their statuses. more is true if some reasons remain to be written.
func (q *admission) tell(ctx context.Context, v *view, loads []*load) (more bool) {
	wrote := 0
	for _, l := range loads {
		w := q.waits(l)
		known := l.status.Message
		if known == w.reason || known != "" && v.now.Sub(w.written) < rewrite {
			continue
		}
		if wrote == reasonsOnce {
			return true
		}
		wrote++
		_, err := q.write(ctx, l, func(l *load) { l.status.Message = w.reason })
		q.note(l, err)
		w.written = v.now
	}
	return false
}
