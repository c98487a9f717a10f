package restore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// maxRefused is the maximum number of items that are asked for again. It bounds the memory of refused items; those
// beyond it fail at once.
const maxRefused = 10_000

// refusals holds the items that the API server has refused to create. An admission may have refused them because
// of objects that are restored later, so they are created again when all others are done.
type refusals struct {
	mu     sync.Mutex
	closed bool // no item is asked for again
	items  []*refusal
	open   map[objectKey]bool // those that are asked for again, or are being asked for
}

// refusal is an item that was refused.
type refusal struct {
	run  *itemRun
	to   target
	home *namespaceState
	own  object.Ownership
	err  error // the last answer
}

// add records a refusal, unless it is final.
func (r *refusals) add(one *refusal) (added bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.items) >= maxRefused {
		return false
	}
	r.items = append(r.items, one)
	if r.open == nil {
		r.open = map[objectKey]bool{}
	}
	r.open[keyOf(one.run.entry)] = true
	return true
}

// waits reports whether an item was refused and may still be created.
func (r *refusals) waits(entry archive.Entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[keyOf(entry)]
}

// end records that an item is not asked for again.
func (r *refusals) end(entry archive.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, keyOf(entry))
}

// take returns the refusals since the last call.
func (r *refusals) take() []*refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	items := r.items
	r.items = nil
	return items
}

// close makes all further refusals final.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// postpone records that the API server has refused to create the item, if the creation may succeed later. A dry run
// creates nothing, so that no later request has another answer.
func (r *itemRun) postpone(to target, home *namespaceState, own object.Ownership, err error) bool {
	var status apierrors.APIStatus
	if r.engine.dry != nil || r.tried || !errors.As(err, &status) {
		return false
	}
	r.refusals.Add(1)
	r.postponed = r.engine.refusals.add(&refusal{run: r, to: to, home: home, own: own, err: err})
	if r.postponed {
		r.refusal.Store(&err)
		r.log.Info("refused, and asked for again when all others are restored", "error", err)
	}
	return r.postponed
}

// askAgain creates the refused items again, in rounds, until a round creates none and no webhook of the plan is left to
// wait for. Then the last answer is the error of each item. It must be called when all other items are done.
func (e *engine) askAgain(ctx context.Context, planned *plan.Order) error {
	for before := 0; ; {
		refused := e.refusals.take()
		again := len(refused) != before
		if !again {
			var err error
			if again, err = e.awaitWebhooks(ctx, planned, refused); err != nil {
				return err
			}
		}
		if !again {
			e.refusals.close()
			for _, one := range refused {
				e.refusals.end(one.run.entry)
				if err := one.run.refused(one.err); err != nil {
					return err
				}
				one.run.conclude()
				e.tracker.settle(one.run.key, one.run.entry, one.run.claim)
			}
			return nil
		}
		before = len(refused)
		e.api.TryBroken()
		e.log.Info("asking again for refused items", "items", len(refused))
		if err := each(ctx, e.pool, refused, func(ctx context.Context, one *refusal) error {
			return one.run.again(ctx, one)
		}); err != nil {
			return err
		}
	}
}

// calledWebhook has the service of a webhook that the API server could not call.
var calledWebhook = regexp.MustCompile(`failed calling webhook .*https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc\b`)

// awaitWebhooks waits for the services of the plan whose webhooks could not be called for refused items, each once. It
// reports whether it is worthwhile to ask again.
func (e *engine) awaitWebhooks(ctx context.Context, planned *plan.Order, refused []*refusal) (again bool, err error) {
	for _, one := range refused {
		match := calledWebhook.FindStringSubmatch(one.err.Error())
		if match == nil {
			continue
		}
		called := plan.Service{Namespace: match[2], Name: match[1]}
		if !planned.HasService(called) || !e.firstReport("wait for "+called.String()) {
			continue
		}
		until, over := e.gate(ctx)
		waiting := waits.Begin(ctx, "%s to be ready until %s, so that what its webhook has to admit can be restored; all "+
			"such waits share %s", called, until.UTC().Format(time.RFC3339), e.options.ResourceTimeout)
		waiting.Because(one.err.Error())
		_, err := e.awaitService(ctx, planned, called, until)
		waiting.End()
		over()
		if err != nil && fatal(ctx, err) {
			return false, err
		}
		again = again || err == nil
	}
	return again, nil
}

// again creates a refused item again.
func (r *itemRun) again(ctx context.Context, one *refusal) error {
	ctx = waits.WithPart(ctx, &r.waits)
	r.postponed = false
	r.refusal.Store(nil)
	if err := r.writeOwned(ctx, one.to, one.home, one.own); err != nil {
		return err
	}
	if !r.postponed {
		r.engine.refusals.end(r.entry)
		r.conclude()
		r.engine.tracker.settle(r.key, r.entry, r.claim)
	}
	return nil
}

// refused records the answer of the API server that refuses to create the item.
func (r *itemRun) refused(err error) error {
	r.finding.refused(err)
	if r.moving != "" {
		err = fmt.Errorf("%w (with the init container in which it waits for its volumes; the ConfigMap of %s sets its "+
			"resources)", err, r.moving)
	}
	return r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
}
