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

// leadership is what it takes to be the one server of a namespace that works.
type leadership struct {
	rest      *rest.Config
	namespace string
	lease     time.Duration // after which another server takes the place of one that says nothing
	log       hclog.Logger
	lose      func() // is called when the lease is lost, before anything else
}

// run waits until this server leads, and then works until work returns or ctx ends. The lease is kept until work has
// returned, so that the next server begins when this one is done, and is then given back, so that it begins at once.
// When the lease is lost, the context of work ends with errLostLead, which is what run answers then.
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
		return nil // told to stop while it stood by
	}
	return <-ended
}

// identity is the same for a server that is started again in its pod, which then need not wait for its own lease, and
// differs for all others. The host of a pod has the pod's name.
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
