package backupqueue

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/server/internal/control"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// queueSite is a namespace of a real API server in which only the controller of the queue runs. The test replaces the
// controller that runs backups.
type queueSite struct {
	*controllertest.Cluster
	t         *testing.T
	admission Admission
	wakes     chan event.GenericEvent // as sent by the host of the plugins
	limit     int
	metrics   *Metrics                        // may be nil
	wrap      func(*run.Cluster) *run.Cluster // of the queue's cluster; may be nil
	locations *Locations                      // may be nil

	queue *Controller // the running one
	stop  func()
}

// decider is a policy without a failure policy.
type decider interface {
	Decide(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error)
}

// alone is an Admission with one policy and no fallback.
type alone struct{ decider }

// Decide implements Admission.
func (a alone) Decide(
	ctx context.Context, snapshot *queueadmission.Snapshot,
) (policy.Outcome[*queueadmission.Decision], error) {
	decision, err := a.decider.Decide(ctx, snapshot)
	return policy.Outcome[*queueadmission.Decision]{Decision: decision, By: "example.io/alone"}, err
}

// newAdmission returns a built-in policy from a plugin host, as in a server.
func newAdmission(t *testing.T, name string, builtIns ...framework.Registration) queueadmission.Policy {
	t.Helper()
	host, err := pluginhost.New(t.Context(), pluginhost.Config{BuiltIns: builtIns, Log: hclog.NewNullLogger()})
	require.NoError(t, err)
	t.Cleanup(host.Close)
	policy, err := pluginhost.Named(host, kinds.QueueAdmission(), name)
	require.NoError(t, err)
	return policy
}

func newQueueSite(t *testing.T, limit int) *queueSite {
	t.Helper()
	return &queueSite{
		Cluster: controllertest.NewCluster(t, nil), t: t, limit: limit,
		admission: alone{newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register())},
		wakes:     make(chan event.GenericEvent),
	}
}

// ofLife returns the labels of the namespaces that the queue of a test watches. The namespaces of other tests would
// wake it.
func ofLife(namespace string) map[string]string { return map[string]string{"test": namespace} }

// newQueueManager returns a manager for one namespace. All its requests pass through wrap, unless it is nil.
func newQueueManager(t *testing.T, namespace string, wrap transport.WrapperFunc) ctrl.Manager {
	t.Helper()
	shared := controllertest.Connect(t)
	config := rest.CopyConfig(shared.Config)
	config.Wrap(wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:         shared.Scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return shared.Mapper, nil },
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Namespace{}: {Label: labels.SelectorFromSet(ofLife(namespace))},
			},
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		Logger:                  logr.Discard(),
		GracefulShutdownTimeout: new(patience),
	})
	require.NoError(t, err)
	return mgr
}

// start starts the queue without a sweep, so each decision needs an event.
func (s *queueSite) start() {
	s.t.Helper()
	mgr := newQueueManager(s.t, s.Namespace, nil)
	cluster := &run.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: s.Namespace}
	if s.wrap != nil {
		cluster = s.wrap(cluster)
	}
	q := &Controller{
		Cluster: cluster, Admission: s.admission, Limit: s.limit, Events: mgr.GetEventRecorder("cleat"), Metrics: s.metrics,
		Log: hclog.NewNullLogger(), Now: time.Now, Exact: queue.DefaultExact(), Locations: s.locations,
	}
	s.queue = q
	require.NoError(s.t, q.Setup(control.NewBuilder(mgr, run.BackupQueueController, 1, logr.Discard()),
		s.wakes).Complete(q))
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.stop = func() {
		cancel()
		require.NoError(s.t, <-ended)
		s.stop = func() {}
	}
	s.t.Cleanup(func() { s.stop() })
}

func (s *queueSite) backups() map[string]*velerov1.Backup {
	s.t.Helper()
	var list velerov1.BackupList
	require.NoError(s.t, s.List(s.t.Context(), &list, client.InNamespace(s.Namespace)))
	byName := map[string]*velerov1.Backup{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName
}

// move writes a phase, as a user or the controller that runs backups.
func (s *queueSite) move(name string, phase velerov1.BackupPhase) {
	s.t.Helper()
	b := s.Backup(s.t, name)
	before := b.DeepCopy()
	b.Status.Phase = phase
	require.NoError(s.t, s.Patch(s.t.Context(), b, client.MergeFrom(before)))
}

// shows waits until the Backups are as wanted, each as "name Phase" or "name Queued 2".
func (s *queueSite) shows(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	var got []string
	require.Eventually(s.t, func() bool {
		got = nil
		for _, b := range s.backups() {
			line := b.Name + " " + string(run.BackupPhase(b))
			if b.Status.QueuePosition != 0 {
				line += fmt.Sprintf(" %d", b.Status.QueuePosition)
			}
			got = append(got, line)
		}
		slices.Sort(got)
		return slices.Equal(want, got)
	}, patience, 20*time.Millisecond, "want %v, got last %v", want, &got)
}

// says returns why a backup waits.
func (s *queueSite) says(name string) string {
	s.t.Helper()
	wait, err := velerov1.QueueWaitOf(s.Backup(s.t, name))
	require.NoError(s.t, err)
	if wait == nil {
		return ""
	}
	return wait.Reason + ": " + wait.Message
}

func of(namespaces ...string) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) { b.Spec.IncludedNamespaces = namespaces }
}
