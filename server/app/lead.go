package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// LeaseName is the Lease that the leading server of a namespace holds.
const LeaseName = "cleat-server"

// errHeld is returned for a lease that another server holds.
var errHeld = errors.New("another server holds the lease")

// leadership elects the one server of a namespace that runs the controllers.
//
// A server that cannot renew its lease keeps trying: in an outage of the API server, no other server can take over. Its
// fence closes meanwhile, and opens again when the lease is renewed. It has lost the lease when it reads that another
// server has it.
type leadership struct {
	leases   coordinationv1.LeaseInterface
	identity string        // from run.NewIdentity
	lease    time.Duration // after which another server takes over from one that does not renew it; at least a second
	fence    *run.Fence
	log      hclog.Logger

	leads  bool
	leader string // as last read
	seen   sight
}

// sight is since when this server sees the lease of another one without a renewal, by its own clock.
type sight struct {
	version string
	since   time.Time
	lasts   time.Duration // how long the lease is valid after that
}

// fenceOpen returns for how long the fence of a server is open after a renewal of its lease. The rest is for requests
// that are on their way when it closes.
func fenceOpen(lease time.Duration) time.Duration { return lease * 2 / 3 }

// period returns the time between two attempts to get or renew the lease.
func (l *leadership) period() time.Duration { return l.lease * 2 / 15 }

// run waits until this server leads and then calls work, whose context ends with ctx. It holds the lease until work has
// returned, so that no other server starts earlier, and then releases it, so that the next one starts at once. When the
// lease is lost, the fence is closed for ever and the context of work is cancelled with run.ErrLostLead, which run
// returns.
func (l *leadership) run(ctx context.Context, work func(context.Context) error) error {
	for {
		err := l.try(ctx)
		if err == nil {
			break
		}
		l.log.Debug("this server does not lead", "reason", err)
		if !sleep(ctx, l.period()) {
			return nil // stopped while it waited for the lease
		}
	}
	l.log.Info("this server leads", "lease", LeaseName, "identity", l.identity)

	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hold, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	ended := make(chan error, 1)
	go func() {
		ended <- work(working)
		release()
	}()
	if err := l.hold(hold); err != nil {
		l.fence.Lose()
		stop(err)
		return errors.Join(err, <-ended)
	}
	l.release(ctx)
	return <-ended
}

// hold renews the lease until ctx ends. It returns run.ErrLostLead if another server has the lease.
func (l *leadership) hold(ctx context.Context) error {
	var failing time.Time
	for sleep(ctx, l.period()) {
		err := l.try(ctx)
		switch {
		case errors.Is(err, run.ErrLostLead):
			return err
		case ctx.Err() != nil:
		case err == nil && !failing.IsZero():
			l.log.Info("the lease is renewed again", "after", time.Since(failing).Round(time.Millisecond))
			failing = time.Time{}
		case err != nil && failing.IsZero():
			failing = time.Now()
			l.log.Warn("the lease could not be renewed; nothing is written when it expires, until it is renewed again", "error",
				err)
		case err != nil:
			l.log.Debug("the lease could not be renewed", "error", err)
		}
	}
	return nil
}

// try gets or renews the lease once. It returns errHeld if another server has it, and run.ErrLostLead if this one had
// it before.
func (l *leadership) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.lease/3, time.Second))
	defer cancel()
	lease, err := l.leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return l.create(ctx)
	}
	if err != nil {
		// While this server reads nothing, it cannot see a renewal either.
		l.seen = sight{}
		return fmt.Errorf("get the lease: %w", err)
	}
	holder := value(lease.Spec.HolderIdentity)
	switch {
	case holder == l.identity:
	case l.leads:
		return run.ErrLostLead
	case holder != "" && !l.expired(lease, holder):
		return errHeld
	default:
		lease.Spec.AcquireTime = new(metav1.NowMicro())
		lease.Spec.LeaseTransitions = new(value(lease.Spec.LeaseTransitions) + 1)
	}
	return l.write(lease, func(lease *coordination.Lease) error {
		_, err := l.leases.Update(ctx, lease, metav1.UpdateOptions{}) // which fails if the lease has changed
		return err
	})
}

// create creates the lease. If it was deleted while another server had it, that server may work until the lease would
// have expired.
func (l *leadership) create(ctx context.Context) error {
	if time.Since(l.seen.since) < l.seen.lasts {
		return errHeld
	}
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName}}
	lease.Spec.AcquireTime = new(metav1.NowMicro())
	return l.write(lease, func(lease *coordination.Lease) error {
		_, err := l.leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	})
}

// write sets the holder of the lease, and opens the fence if send succeeds.
func (l *leadership) write(lease *coordination.Lease, send func(*coordination.Lease) error) error {
	began := time.Now()
	lease.Spec.HolderIdentity = &l.identity
	lease.Spec.LeaseDurationSeconds = new(int32(l.lease / time.Second))
	lease.Spec.RenewTime = new(metav1.NewMicroTime(began))
	if err := send(lease); err != nil {
		return fmt.Errorf("write the lease: %w", err)
	}
	l.leads, l.leader = true, l.identity
	l.fence.Renew(began)
	return nil
}

// expired reports whether another server has not renewed its lease for as long as the lease is valid, by the clock of
// this server and as far as this server could read it.
func (l *leadership) expired(lease *coordination.Lease, holder string) bool {
	if holder != l.leader {
		l.log.Info("another server leads, this one stands by", "lease", LeaseName, "leader", holder)
		l.leader = holder
	}
	if l.seen.version != lease.ResourceVersion {
		valid := time.Duration(value(lease.Spec.LeaseDurationSeconds)) * time.Second
		l.seen = sight{version: lease.ResourceVersion, since: time.Now(), lasts: cmp.Or(valid, l.lease)}
	}
	return time.Since(l.seen.since) >= l.seen.lasts
}

// release gives the lease up, so that another server need not wait until it expires.
func (l *leadership) release(ctx context.Context) {
	l.fence.Lose()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.lease/3, time.Second))
	defer cancel()
	lease, err := l.leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if err == nil && value(lease.Spec.HolderIdentity) == l.identity {
		lease.Spec.HolderIdentity = new("")
		_, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		l.log.Warn("the lease could not be released; the next server waits until it expires", "error", err)
	}
}

// sleep waits for a time. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// host returns the name of this server's pod or machine, for people.
func host() string {
	name, _ := os.Hostname()
	return cmp.Or(os.Getenv("POD_NAME"), name, "server")
}
