package restore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// maxNeedsShown is the number of needs of an item that are named.
const maxNeedsShown = 20

// Account tells what becomes of the items of one restore: of those that have ended, in a file, and while the restore is
// at work of all. It is safe for concurrent use.
type Account struct {
	file  *outcome.Spool // nil for none
	began time.Time

	mu         sync.Mutex
	plan       *outcome.Plan // nil before the order is planned; its Done is outdated, see done
	order      *plan.Order
	*following // with order
	turns      *schedule
	target     func(namespace string) string
	working    map[objectKey]*itemRun
}

// following follows a schedule, which calls it while it is locked. So it has no lock of its own.
type following struct {
	began time.Time
	waves []int32        // of each item, from 1
	held  []atomic.Int64 // of each item: its last need, and how many milliseconds after began that was there; see heldUp
	done  []atomic.Int64 // of each wave: items that have ended
}

// freed records which need of an item was there last.
func (f *following) freed(item, by int) {
	f.held[item].Store(int64(by+1)<<32 | min(time.Since(f.began).Milliseconds(), 1<<31))
}

// gone counts an item that is done.
func (f *following) gone(item int) { f.done[f.waves[item]-1].Add(1) }

// heldUp returns the last need of an item, and when that was there. ok is false if the item has no needs.
func (f *following) heldUp(item int) (by int, seconds float64, ok bool) {
	held := f.held[item].Load()
	return int(held>>32) - 1, float64(held&(1<<32-1)) / 1000, held != 0
}

// NewAccount returns the account of a restore. It writes what becomes of the items to a file, which may be nil.
func NewAccount(file *outcome.Spool) *Account {
	return &Account{file: file, began: time.Now(), working: map[objectKey]*itemRun{}}
}

// objectKey identifies an object by its resource.
type objectKey struct {
	resource        schema.GroupResource
	namespace, name string
}

func keyOf(e archive.Entry) objectKey { return objectKey{e.GroupResource, e.Namespace, e.Name} }

// planned records the order of a restore.
func (a *Account) planned(e *engine, order *plan.Order, s *schedule) {
	waves := order.Waves()
	made := order.Describe(waves, func(of archive.Entry) bool {
		_, there := e.archive.Find(of.GroupResource, of.Namespace, of.Name)
		return there
	})
	for i := range waves {
		waves[i]++
	}
	if a.file != nil {
		a.file.Plan(made)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan, a.order, a.turns, a.target = made, order, s, e.selection.Target
	a.following = &following{began: a.began, waves: waves, held: make([]atomic.Int64, len(waves)),
		done: make([]atomic.Int64, len(made.Waves))}
	s.follow = a.following
}

// complete forgets the order, when all items have ended.
func (a *Account) complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order, a.turns = nil, nil
	if a.following != nil {
		a.following = &following{done: a.done}
	}
}

// begin records that an item has begun.
func (a *Account) begin(r *itemRun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working[keyOf(r.entry)] = r
}

// end records what became of an item.
func (a *Account) end(r *itemRun, made outcome.Item) {
	a.mu.Lock()
	delete(a.working, keyOf(r.entry))
	a.describe(r.entry, &made)
	a.mu.Unlock()
	for _, w := range r.waits.Past() {
		made.Waits = append(made.Waits, outcome.Wait{For: w.For, Because: w.Because, Seconds: seconds(w.Lasted)})
	}
	a.add(made)
}

// add adds an item that the order need not have.
func (a *Account) add(made outcome.Item) {
	if a.file != nil {
		a.file.Add(made)
	}
}

func (a *Account) position(e archive.Entry) (int, bool) {
	if a.order == nil {
		return 0, false
	}
	return a.order.Position(e)
}

// describe adds what the order says about an item. The caller holds mu.
func (a *Account) describe(e archive.Entry, made *outcome.Item) {
	at, ok := a.position(e)
	if !ok {
		return
	}
	made.Wave = int(a.waves[at])
	for to, strict := range a.order.Needs.Of(at) {
		if len(made.Needs) == maxNeedsShown {
			made.MoreNeeds++
			continue
		}
		made.Needs = append(made.Needs, outcome.Need{Ref: plan.RefOf(a.order.Item(to)), Strict: strict})
	}
	if by, seconds, ok := a.heldUp(at); ok {
		ref := plan.RefOf(a.order.Item(by))
		made.HeldUp, made.HeldUpBy = seconds, &ref
	}
}

// Plan returns the order of the restore with the progress of its waves, or nil if it is not planned yet.
func (a *Account) Plan() *outcome.Plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plan == nil {
		return nil
	}
	made := *a.plan
	made.Waves = slices.Clone(made.Waves)
	for i := range made.Waves {
		made.Waves[i].Done = int(a.done[i].Load())
	}
	return &made
}

// Find returns the items that match, up to a limit. match gets their identities only.
func (a *Account) Find(match func(*outcome.Item) bool, limit int) (found []outcome.Item, err error) {
	seen := map[objectKey]bool{}
	a.mu.Lock()
	if a.order != nil {
		for i := range a.order.Len() {
			e := a.order.Item(i)
			one := a.identity(e)
			if len(found) < limit && !a.turns.isDone(i) && match(&one) {
				seen[keyOf(e)] = true
				found = append(found, a.live(i, one))
			}
		}
	}
	for key, r := range a.working { // also additional items, and those that were refused
		one := r.outcome(outcome.Working)
		if len(found) < limit && !seen[key] && match(&one) {
			a.describe(r.entry, &one)
			found = append(found, r.live(one))
		}
	}
	a.mu.Unlock()
	if a.file == nil {
		return found, nil
	}
	return found, a.file.Items(func(one outcome.Item) error {
		if len(found) < limit && match(&one) {
			found = append(found, one)
		}
		return nil
	})
}

// Left returns the items that have not ended, up to a limit, and the number of the others.
func (a *Account) Left(limit int) (left []outcome.Item, more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.order != nil {
		for i := range a.order.Len() {
			e := a.order.Item(i)
			switch {
			case a.turns.isDone(i):
			case len(left) == limit:
				more++
			default:
				left = append(left, a.live(i, a.identity(e)))
			}
		}
	}
	for _, r := range a.working {
		at, planned := a.position(r.entry)
		switch {
		case planned && !a.turns.isDone(at): // it is there
		case len(left) == limit:
			more++
		default:
			one := r.outcome(outcome.Working)
			a.describe(r.entry, &one)
			left = append(left, r.live(one))
		}
	}
	slices.SortFunc(left, func(a, b outcome.Item) int {
		return cmp.Or(cmp.Compare(a.Wave, b.Wave), strings.Compare(a.Source().String(), b.Source().String()))
	})
	return left, more
}

// identity returns an item of the archive with nothing but its identity there.
func (a *Account) identity(e archive.Entry) outcome.Item {
	one := outcome.Item{Resource: e.GroupResource.String(), Namespace: a.target(e.Namespace), Name: e.Name,
		Outcome: outcome.Waiting}
	if one.Namespace != e.Namespace {
		one.From = e.Namespace
	}
	return one
}

// live describes an item of the order that has not ended. The caller holds mu.
func (a *Account) live(at int, one outcome.Item) outcome.Item {
	e := a.order.Item(at)
	if r := a.working[keyOf(e)]; r != nil {
		one = r.outcome(outcome.Working)
		a.describe(e, &one)
		return r.live(one)
	}
	a.describe(e, &one)
	missing := a.turns.missing(at)
	var names []string
	for _, to := range missing {
		ref := plan.RefOf(a.order.Item(to))
		names = append(names, ref.String())
		for i := range one.Needs {
			one.Needs[i].Missing = one.Needs[i].Missing || one.Needs[i].Ref == ref
		}
	}
	const few = 3
	if more := len(names) - few; more > 0 {
		names = append(names[:few], fmt.Sprintf("%d more", more))
	}
	one.Reason = "what is before it in the order is not done"
	if len(names) > 0 {
		one.Reason = "it needs " + strings.Join(names, ", ")
	}
	return one
}

// live adds what an item at work waits for.
func (r *itemRun) live(one outcome.Item) outcome.Item {
	for _, list := range []struct {
		waits []waits.Waiting
		open  bool
	}{{r.waits.Past(), false}, {r.waits.Open(), true}} {
		for _, w := range list.waits {
			lasted := w.Lasted
			if list.open {
				lasted = time.Since(w.Since)
			}
			one.Waits = append(one.Waits, outcome.Wait{For: w.For, Because: w.Because, Seconds: seconds(lasted),
				Open: list.open})
		}
	}
	if err := r.refusal.Load(); err != nil {
		one.Outcome = outcome.Postponed
		one.Reason = "the API server has refused it, and is asked again when all others are restored: " + (*err).Error()
	}
	return one
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// outcome returns the identity of an item, with a verdict.
func (r *itemRun) outcome(verdict outcome.Verdict) outcome.Item {
	made := outcome.Item{Resource: r.entry.GroupResource.String(), Namespace: r.namespace, Name: r.entry.Name,
		Outcome: verdict, Refusals: int(r.refusals.Load())}
	switch {
	case r.entry.GroupResource == namespacesResource: // see restoreNamespace
		made.Namespace, made.Name = "", cmp.Or(r.namespace, r.entry.Name)
	case r.entry.Namespace != r.namespace:
		made.From = r.entry.Namespace
	}
	return made
}

// report records what became of the item, or would in a dry run. An empty action means that the restore ended before.
func (r *itemRun) report(action action) {
	if action == actionNone {
		return
	}
	made := r.outcome(outcome.Verdict(action.String()))
	made.Reason, made.Unchecked = strings.Join(r.finding.reasons, "; "), r.finding.unchecked
	made.Incomplete = (r.warned || r.failed) && (action == actionCreated || action == actionUpdated)
	if r.obj != nil {
		made.APIVersion, made.Kind = r.obj.GroupVersion().String(), r.obj.Kind
	}
	if action == actionFailed {
		made.Outcome = cmp.Or(r.finding.verdict, outcome.Failed)
	}
	r.engine.account.end(r, made)
}

// reportNamespace records what became of a namespace that did not exist, or would in a dry run.
func (e *engine) reportNamespace(source, name string, verdict outcome.Verdict, reason string) {
	r := &itemRun{engine: e, namespace: "", entry: archive.Entry{GroupResource: namespacesResource, Name: source}}
	made := r.outcome(verdict)
	made.Name, made.APIVersion, made.Kind, made.Reason = name, "v1", "Namespace", reason
	e.account.end(r, made)
}
