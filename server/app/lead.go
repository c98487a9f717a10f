package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/cleat-dev/cleat/server/run"
)

// leaseName is the Lease that the leading server of a namespace holds.
const leaseName = "cleat-server"

// leadership elects the one server of a namespace that runs the controllers.
type leadership struct {
	rest      *rest.Config
	namespace string
	lease     time.Duration // after which another server takes over from one that does not renew it
	log       hclog.Logger
	lose      func() // called first when the lease is lost
}

// run waits until this server leads and then calls work, whose context ends with ctx. It holds the lease until work has
// returned, so that no other server starts earlier, and then releases it, so that the next one starts at once. When the
// lease is lost, the context of work is cancelled with run.ErrLostLead, which run returns.
func (l leadership) run(ctx context.Context, work func(context.Context) error) error {
	client, err := coordinationv1.NewForConfig(l.rest)
	if err != nil {
		return fmt.Errorf("make a client for leases: %w", err)
	}
	hold, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var leads atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !leads.Load() {
			release()
		}
	})()

	ended := make(chan error, 1)
	identity := identity()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: leaseName}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: l.lease, RenewDeadline: l.lease * 2 / 3, RetryPeriod: l.lease * 2 / 15,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				leads.Store(true)
				l.log.Info("this server leads", "lease", leaseName, "identity", identity)
				ended <- work(working)
				release()
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				if leader != identity {
					l.log.Info("another server leads, this one stands by", "lease", leaseName, "leader", leader)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("prepare to lead: %w", err)
	}
	elector.Run(hold)
	if hold.Err() == nil {
		l.lose()
		stop(run.ErrLostLead)
		return errors.Join(run.ErrLostLead, <-ended)
	}
	if !leads.Load() {
		return nil // stopped while it waited for the lease
	}
	return <-ended
}

// identity returns the name under which this server holds the lease. A server that is restarted in its pod gets the same
// name, so that it does not wait for its own lease. The hostname of a pod is the pod's name.
func identity() string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	host, err := os.Hostname()
	if err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return host
	}
	return cmp.Or(host, "server") + "_" + string(uuid.NewUUID())
}
