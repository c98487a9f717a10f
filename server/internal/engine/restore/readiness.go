package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/ready"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// unready holds the items that this restore has created and that other items may have to wait for.
type unready struct {
	mu    sync.Mutex
	items map[string]*readiness // by the path of the entry
}

// readiness is what an item is waited for after its creation, until others may rely on it.
type readiness struct {
	run *itemRun
	to  target
	// applies reports whether the item is waited for at all; nil stands for yes.
	applies func(ctx context.Context) (bool, error)
	// check reports whether the item is ready, or why not. It is nil if only services matter.
	check func(live []byte) (ready bool, why string, err error)
	// services are those that serve the item; see services.
	services []plan.Service
}

// isUnready records what the item, which has just been created, is waited for.
func (r *itemRun) isUnready(to target) {
	one := &readiness{run: r, to: to}
	switch gr := to.gvr.GroupResource(); {
	case r.engine.dry != nil:
		return
	case plan.IsGate(gr):
		one.services = plan.Services(gr, r.obj.Encode("managedFields"))
		switch {
		case gr == crdsResource:
			one.check = checkDefinition
		case len(one.services) == 0:
			return
		case gr == apiServicesResource:
			one.check = checkAPIService
		}
	case gr == claimsResource && !r.operates:
		one.applies, one.check = r.isBoundAtOnce, checkClaim
	default:
		return
	}
	u := &r.engine.unready
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.items == nil {
		u.items = map[string]*readiness{}
	}
	u.items[r.entry.Path()] = one
}

// take returns what an item is waited for, once; nil for nothing.
func (u *unready) take(entry archive.Entry) *readiness {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.items) == 0 {
		return nil
	}
	one := u.items[entry.Path()]
	delete(u.items, entry.Path())
	return one
}

// awaitReady returns when an item of a plan is ready for those that need it. It waits if this restore has created the
// item and others need it strictly, and for each definition, whose error nothing else would tell. When the time of the
// restore for its gates is over, it records a warning. The caller holds no slot of the pool.
func (e *engine) awaitReady(ctx context.Context, s *schedule, item int) error {
	one := e.unready.take(s.order.Item(item))
	if one == nil {
		return nil
	}
	needed, isDefinition := s.isNeeded(item), one.to.gvr.GroupResource() == crdsResource
	if !needed && !isDefinition {
		return nil
	}
	if one.applies != nil {
		if applies, err := one.applies(ctx); !applies || err != nil {
			return err
		}
	}
	s.pass(item)
	r := one.run
	until, over := e.gate(ctx)
	defer over()
	waiting := waits.Begin(ctx, "%s to be ready until %s, so that what needs it can be restored; all such waits share %s",
		r.id, until.UTC().Format(time.RFC3339), e.options.ResourceTimeout)
	defer waiting.End()
	late := !time.Now().Before(until)
	if why, err := e.awaitObject(ctx, one, until, waiting); err != nil {
		return r.isNotReady(ctx, err, why, late, isDefinition)
	}
	if isDefinition && (!needed || !s.order.IsConverted(item)) {
		return nil
	}
	for _, called := range one.services {
		waiting.Because(called.String() + " has no ready endpoint")
		if why, err := e.awaitService(ctx, s.order, called, until); err != nil {
			return r.isNotReady(ctx, err, why, late, false)
		}
	}
	return nil
}

// awaitObject returns when the check of an item finds it ready, or an error and why it is not.
func (e *engine) awaitObject(
	ctx context.Context, one *readiness, until time.Time, waiting *waits.Wait,
) (why string, err error) {
	if one.check == nil {
		return "", nil
	}
	err = e.objects.Wait(ctx, one.to.gvr.Resource, time.Until(until), func(ctx context.Context) (bool, error) {
		live, err := e.api.Do(ctx, one.to.read(one.run.liveName, kubeapi.JSON))
		if apierrors.IsNotFound(err) {
			return false, errors.New("it does not exist any more")
		}
		if err != nil {
			return false, err
		}
		is, because, err := one.check(live.Body)
		if err == nil {
			why = because
			waiting.Because(why)
		}
		return is, err
	})
	return why, err
}

// isNotReady records that the wait for the item has ended with an error: as a warning, but for a definition that is not
// served. late means that no time was left when it began. It returns the error only if that ends the whole restore.
func (r *itemRun) isNotReady(ctx context.Context, err error, why string, late, unserved bool) error {
	if fatal(ctx, err) {
		return cmp.Or(context.Cause(ctx), err)
	}
	limit := r.engine.options.ResourceTimeout
	switch {
	case !errors.Is(err, ready.ErrTimeout):
		err = fmt.Errorf("%s is not ready: %w", r.id, err)
	case late:
		err = fmt.Errorf("%s is not ready (%s), and is not waited for, because others have taken the time for all waits, %s",
			r.id, why, limit)
	default:
		err = fmt.Errorf("%s is not ready after %s of waits (%s)", r.id, limit, why)
	}
	if unserved {
		return r.fail(fmt.Errorf("%w, so its custom resources cannot be restored", err))
	}
	r.warn(fmt.Errorf("%w; what needs it is restored nevertheless", err))
	return nil
}

// checkDefinition reports whether the objects of a definition are served: it is established and its names are accepted.
func checkDefinition(live []byte) (ready bool, why string, err error) {
	return hasConditions(live, "NamesAccepted", "Established")
}

func checkAPIService(live []byte) (ready bool, why string, err error) {
	return hasConditions(live, "Available")
}

// hasConditions reports whether an object has all conditions. why describes the first unmet one.
func hasConditions(live []byte, wanted ...string) (has bool, why string, err error) {
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(live, &object); err != nil {
		return false, "", fmt.Errorf("decode its conditions: %w", err)
	}
	messages, met := map[string]string{}, map[string]bool{}
	for _, c := range object.Status.Conditions {
		messages[c.Type], met[c.Type] = c.Message, c.Status == "True"
	}
	for _, condition := range wanted {
		if met[condition] {
			continue
		}
		why = "condition " + condition + " is not met"
		if messages[condition] != "" {
			why += ": " + messages[condition]
		}
		return false, why, nil
	}
	return true, "", nil
}
