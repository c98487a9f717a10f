package node

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

// awaitMaintenance waits while nothing but maintenance may work with the repository of a load that is InProgress. The
// status of the load says so meanwhile.
func (a *Agent) awaitMaintenance(ctx context.Context, l *load, t *transfer) error {
	mover, err := a.Movers.Find(l.spec.mover, hostpath.Volume{})
	if err != nil {
		return err
	}
	return a.Repositories.AwaitMaintenance(ctx, mover, l.spec.location, l.spec.repository, func(waits bool) error {
		t.waitForMaintenance(waits)
		if waits {
			a.Log.Info("a load waits for the maintenance of its repository", "kind", l.name, "name", l.GetName())
			a.slots.wake(l.name, l.Object)
			return nil
		}
		return a.awaitMoving(ctx, l, t)
	})
}

// awaitMoving returns when the status of a load does not say that the load waits, and no write that says so is on its
// way.
func (a *Agent) awaitMoving(ctx context.Context, l *load, t *transfer) error {
	for {
		a.slots.wake(l.name, l.Object)
		moving, err := a.saysMoving(ctx, l, t)
		if err != nil || moving {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(soon):
		}
	}
}

func (a *Agent) saysMoving(ctx context.Context, l *load, t *transfer) (bool, error) {
	t.stating.Lock()
	defer t.stating.Unlock()
	now := l.object()
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(l.Object), now); err != nil {
		return false, fmt.Errorf("read the status of the load: %w", err)
	}
	return l.kind.status(now).Message != run.WaitsForMaintenance, nil
}

// waitForMaintenance sets whether the load of a transfer waits for the maintenance of its repository.
func (t *transfer) waitForMaintenance(waits bool) {
	t.stating.Lock()
	defer t.stating.Unlock()
	t.maintained = waits
}
