package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
)

// TestNodesAreLookedUpAsOftenByManyAgents counts the requests with which all agents of a cluster check one node in an
// hour. Each agent checks the node whenever a check is due, and more often, because loads change all the time.
func TestNodesAreLookedUpAsOftenByManyAgents(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	for _, count := range []int{1, nodeCheckers, 500} {
		registered := ledger.Ledger{Agents: map[string]string{}}
		for i := range count {
			registered.Agents[fmt.Sprint("n", i)] = "process"
		}
		key, err := testKeys().Get(t.Context())
		require.NoError(t, err)
		cm, err := registered.ConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace,
			Name: ledger.Name}}, key)
		require.NoError(t, err)
		requests := 0
		api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cm,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}).
			WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				object client.Object, o ...client.GetOption) error {
				if _, ok := object.(*corev1.Node); ok {
					requests++
				}
				return c.Get(ctx, key, object, o...)
			}}).Build()
		began := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
		now := began
		var agents []*Agent
		for range count {
			agents = append(agents, &Agent{Cluster: &run.Cluster{Client: api, Live: api, Namespace: modelNamespace},
				Signing: testKeys(), Now: func() time.Time { return now }})
		}
		for ; now.Sub(began) < time.Hour; now = now.Add(nodeCheck / 3) {
			for _, a := range agents {
				gone, again, err := a.nodeGone(t.Context(), "other")
				require.NoError(t, err)
				require.False(t, gone)
				require.Positive(t, again)
			}
		}
		rounds := int(time.Hour / nodeCheck)
		require.InDelta(t, min(count, nodeCheckers)*rounds, requests, float64(min(count, nodeCheckers)*rounds)/5, "%d agents",
			count)

		now = now.Add(time.Hour)
		require.NoError(t, api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
		for range 2 { // one load after the other
			gone, _, err := agents[0].nodeGone(t.Context(), "other")
			require.NoError(t, err)
			require.True(t, gone)
		}
	}
}

// TestAcceptedLoadWithoutTimestampTimesOut shows that a load which another client has made Accepted counts from its
// creation.
func TestAcceptedLoadWithoutTimestampTimesOut(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1, 1)
	a := m.agents[0].q.Agent
	a.PrepareTimeout = 30 * time.Minute
	require.NoError(t, m.store.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
	kind := dataUploads()
	phaseOf := func(age time.Duration) velerov1.LoadPhase {
		upload := &velerov2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{
			Namespace: modelNamespace, Name: fmt.Sprint("of-", age), CreationTimestamp: metav1.NewTime(m.clock.Add(-age)),
		}}
		upload.Spec.DataMover = "some"
		upload.Status.Phase, upload.Status.AcceptedByNode = velerov1.LoadPhaseAccepted, "other"
		require.NoError(t, m.store.Create(t.Context(), upload))
		_, err := (&machine{Agent: a, kind: kind}).guard(t.Context(), newLoad(kind, upload))
		require.NoError(t, err)
		require.NoError(t, m.store.Get(t.Context(), client.ObjectKeyFromObject(upload), upload))
		return upload.Status.Phase
	}
	require.Equal(t, velerov1.LoadPhaseAccepted, phaseOf(29*time.Minute))
	require.Equal(t, velerov1.LoadPhaseFailed, phaseOf(time.Hour))
}

// exposer is an Exposer whose volumes are never ready.
type exposer struct{ Exposer }

func (exposer) Release(context.Context, client.Object, bool) error {
	return Pending("its volume is being made")
}

func TestCanceledLoadSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1, 1)
	a := m.agents[0].q.Agent
	a.slots, a.Exposers = newSlots(1), map[string]Exposer{"DataUpload": exposer{}}
	upload := &velerov2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "u"}}
	upload.Spec.DataMover, upload.Spec.Cancel = "some", true
	upload.Status.Phase, upload.Status.AcceptedByNode = velerov1.LoadPhaseAccepted, a.Node
	upload.Status.AcceptedTimestamp = &metav1.Time{Time: m.clock.Add(-explainAfter)}
	require.NoError(t, m.store.Create(t.Context(), signed(t, upload)))
	m.agents[0].sync(1)

	key := client.ObjectKeyFromObject(upload)
	result, err := (&machine{Agent: a, kind: dataUploads()}).Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	require.Equal(t, soon, result.RequeueAfter)
	require.NoError(t, m.store.Get(t.Context(), key, upload))
	require.Equal(t, velerov1.LoadPhaseAccepted, upload.Status.Phase)
	require.Equal(t, "its volume is being made", upload.Status.Message)
}
