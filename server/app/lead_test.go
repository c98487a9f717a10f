package app

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// cupboard holds the one lease of a namespace, as the API server does.
type cupboard struct {
	mu      sync.Mutex
	lease   *coordination.Lease // nil if there is none
	version int
}

// store stores a lease in its next version.
func (c *cupboard) store(lease *coordination.Lease) *coordination.Lease {
	c.version++
	c.lease = lease.DeepCopy()
	c.lease.ResourceVersion = strconv.Itoa(c.version)
	return c.lease.DeepCopy()
}

// leases is a server's access to the lease, which can be cut off.
type leases struct {
	coordinationv1.LeaseInterface
	*cupboard
	away atomic.Bool
}

func (l *leases) ask(reply func() (*coordination.Lease, error)) (*coordination.Lease, error) {
	if l.away.Load() {
		return nil, errors.New("connection refused")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return reply()
}

func (l *leases) Get(context.Context, string, metav1.GetOptions) (*coordination.Lease, error) {
	return l.ask(func() (*coordination.Lease, error) {
		if l.lease == nil {
			return nil, apierrors.NewNotFound(coordination.Resource("leases"), LeaseName)
		}
		return l.lease.DeepCopy(), nil
	})
}

func (l *leases) Create(
	_ context.Context, lease *coordination.Lease, _ metav1.CreateOptions,
) (*coordination.Lease, error) {
	return l.ask(func() (*coordination.Lease, error) {
		if l.lease != nil {
			return nil, apierrors.NewAlreadyExists(coordination.Resource("leases"), LeaseName)
		}
		return l.store(lease), nil
	})
}

func (l *leases) Update(
	_ context.Context, lease *coordination.Lease, _ metav1.UpdateOptions,
) (*coordination.Lease, error) {
	return l.ask(func() (*coordination.Lease, error) {
		if l.lease == nil || l.lease.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(coordination.Resource("leases"), LeaseName, errors.New("it has changed"))
		}
		return l.store(lease), nil
	})
}

// term is one server that wants to lead.
type term struct {
	*leadership
	*leases
	leading chan struct{}
	stop    context.CancelFunc
	ended   chan error
}

// begin starts a server. Its work ends when it is told to stop or loses the lease.
func (c *cupboard) begin(t *testing.T, host string) *term {
	t.Helper()
	const lease = 15 * time.Second
	v := &term{leases: &leases{cupboard: c}, leading: make(chan struct{}), ended: make(chan error, 1)}
	v.leadership = &leadership{
		leases: v.leases, identity: run.NewIdentity(host), lease: lease, fence: run.NewFence(fenceOpen(lease)),
		log: hclog.NewNullLogger(),
	}
	ctx, stop := context.WithCancel(t.Context())
	v.stop = stop
	go func() {
		v.ended <- v.run(ctx, func(ctx context.Context) error {
			close(v.leading)
			<-ctx.Done()
			return nil
		})
	}()
	synctest.Wait()
	return v
}

// leads reports whether the server works.
func (v *term) leads() bool {
	synctest.Wait()
	select {
	case <-v.leading:
		return len(v.ended) == 0
	default:
		return false
	}
}

// mayWrite reports whether the fence is open.
func (v *term) mayWrite() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	return v.fence.Wait(ctx) == nil
}

func TestOneServerLeadsWhateverTheIdentityOfItsHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &cupboard{}
		one, two := e.begin(t, "cleat-0"), e.begin(t, "cleat-0")
		time.Sleep(time.Minute)
		require.True(t, one.leads())
		require.True(t, one.mayWrite())
		require.False(t, two.leads())
		require.False(t, two.mayWrite())

		one.stop()
		require.NoError(t, <-one.ended)
		require.False(t, one.mayWrite(), "it has released the lease")
		time.Sleep(2 * time.Second)
		require.True(t, two.leads(), "at once, not when the lease expires")
		two.stop()
		require.NoError(t, <-two.ended)
	})
}

func TestLeaderThatIsCutOffStopsToWriteBeforeTheNextOneLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &cupboard{}
		one, two := e.begin(t, "a"), e.begin(t, "b")
		one.away.Store(true)
		for !two.leads() {
			require.False(t, one.mayWrite() && two.mayWrite(), "two servers may write")
			time.Sleep(100 * time.Millisecond)
		}
		require.False(t, one.mayWrite())
		require.True(t, two.mayWrite())
		require.True(t, one.leads(), "it does not know yet")

		one.away.Store(false)
		require.ErrorIs(t, <-one.ended, run.ErrLostLead)
		require.False(t, one.mayWrite())
		two.stop()
		require.NoError(t, <-two.ended)
	})
}

func TestNobodyTakesOverInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &cupboard{}
		one, two := e.begin(t, "a"), e.begin(t, "b")
		for range 3 {
			one.away.Store(true)
			two.away.Store(true)
			time.Sleep(time.Minute)
			require.True(t, one.leads())
			require.False(t, one.mayWrite(), "the lease has expired")

			two.away.Store(false) // the standby is the first that reaches the API server again
			time.Sleep(10 * time.Second)
			one.away.Store(false)
			time.Sleep(3 * time.Second)
			require.True(t, one.leads())
			require.True(t, one.mayWrite())
			require.False(t, two.leads())
		}
		one.stop()
		two.stop()
		require.NoError(t, errors.Join(<-one.ended, <-two.ended))
	})
}

func TestStandbyHonoursALeaseThatIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &cupboard{}
		one, two := e.begin(t, "a"), e.begin(t, "b")
		time.Sleep(5 * time.Second)
		one.away.Store(true)
		e.mu.Lock()
		e.lease = nil
		e.mu.Unlock()
		for !two.leads() {
			require.False(t, one.mayWrite() && two.mayWrite(), "two servers may write")
			time.Sleep(100 * time.Millisecond)
		}
		require.False(t, one.mayWrite())
		one.away.Store(false)
		require.ErrorIs(t, <-one.ended, run.ErrLostLead)
		two.stop()
		require.NoError(t, <-two.ended)
	})
}
