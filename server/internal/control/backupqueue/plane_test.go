package backupqueue

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
)

// realPlane is a namespace of a real API server.
type realPlane struct {
	t       *testing.T
	cluster *controllertest.Cluster
	streams *streams // the watches of the running queue
	end     func()   // stops the queue; nil if none runs
}

// newRealPlane creates a namespace, which o observes until ctx ends.
func newRealPlane(ctx context.Context, t *testing.T, o *observer) *realPlane {
	t.Helper()
	p := &realPlane{t: t, cluster: controllertest.NewCluster(t, nil)}
	shared := controllertest.Connect(t)
	c, err := client.NewWithWatch(shared.Config, client.Options{Scheme: shared.Scheme, Mapper: shared.Mapper})
	require.NoError(t, err)
	p.cluster.Client = c
	require.NoError(t, o.follow(ctx, c, p.name()))
	return p
}

func (p *realPlane) name() string { return p.cluster.Namespace }

func (p *realPlane) start(newQueue func(client.Client, client.Reader) *watchedQueue, f flaw) {
	p.t.Helper()
	p.streams = newStreams()
	mgr := newQueueManager(p.t, p.name(), p.streams.wrap)
	require.NoError(p.t, newQueue(mgr.GetClient(), mgr.GetAPIReader()).setup(mgr, f))
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	p.end = func() {
		cancel()
		require.NoError(p.t, <-ended)
	}
}

func (p *realPlane) stop() { p.end() }

func (p *realPlane) hold() { p.streams.hold() }

func (p *realPlane) release() { p.streams.release() }

func (p *realPlane) create(b *velerov1.Backup) { p.cluster.Add(p.t, b) }

func (p *realPlane) write(b, changed *velerov1.Backup) {
	require.NoError(p.t, client.IgnoreNotFound(p.cluster.Patch(p.t.Context(), changed, client.MergeFrom(b))))
}

func (p *realPlane) remove(b *velerov1.Backup) {
	require.NoError(p.t, client.IgnoreNotFound(p.cluster.Delete(p.t.Context(), b.DeepCopy())))
}

func (p *realPlane) makeNamespace(name string) {
	require.NoError(p.t, p.cluster.Create(p.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: ofLife(p.name()), Finalizers: []string{testFinalizer},
	}}))
}

func (p *realPlane) endNamespace(name string) {
	require.NoError(p.t, p.cluster.Delete(p.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// removeNamespace deletes a namespace immediately. It is empty, so there is no need to wait for the namespace
// controller.
func (p *realPlane) removeNamespace(name string, terminating bool) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !terminating {
		require.NoError(p.t, p.cluster.Delete(p.t.Context(), namespace))
	}
	require.NoError(p.t, p.cluster.Patch(p.t.Context(), namespace,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	for { // the namespace controller may write to it, too
		err := p.cluster.Get(p.t.Context(), client.ObjectKeyFromObject(namespace), namespace)
		if err == nil {
			namespace.Spec.Finalizers = nil
			err = p.cluster.SubResource("finalize").Update(p.t.Context(), namespace)
		}
		if apierrors.IsConflict(err) {
			continue
		}
		require.NoError(p.t, client.IgnoreNotFound(err))
		return
	}
}
