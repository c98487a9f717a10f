package requests

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

func TestStatusRequestIsAnsweredAndDeleted(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.ServerStatusRequest{ObjectMeta: metav1.ObjectMeta{
		Name: "q", Annotations: map[string]string{"own": "stays", serverreport.PluginDetailsAnnotation: "p", serverreport.BlockersOfAnnotation: "b"},
	}})
	now := time.Now()
	r := &Statuses{Cluster: c.Cluster, Version: "v1", Now: func() time.Time { return now }, Plugins: func() []velerov1.PluginInfo {
		return []velerov1.PluginInfo{{Name: "example.io/p", Kind: "ObjectStore"}}
	}, Report: func(_ context.Context, details string) *serverreport.PluginReport {
		return &serverreport.PluginReport{Directory: "/plugins", Plugins: []serverreport.Plugin{{Name: "example.io/" + details, Status: serverreport.InUse}}}
	}, Policies: func() *serverreport.PolicyReport {
		return &serverreport.PolicyReport{ConcurrentBackups: 3, Policies: []serverreport.Policy{{Kind: "QueueAdmission", Plugin: "a.b/c", FailurePolicy: "Hold"}}}
	}, Blockers: func(_ context.Context, backup string) (*serverreport.Blockers, error) {
		return &serverreport.Blockers{Backup: backup, Names: []string{"a"}}, nil
	}}
	result, err := r.Reconcile(t.Context(), c.Request("q"))
	require.NoError(t, err)
	require.Equal(t, time.Minute, result.RequeueAfter)
	var q velerov1.ServerStatusRequest
	require.NoError(t, c.Get(t.Context(), c.Request("q").NamespacedName, &q))
	require.Equal(t, velerov1.ServerStatusRequestPhaseProcessed, q.Status.Phase)
	require.Equal(t, "v1", q.Status.ServerVersion)
	require.Equal(t, []velerov1.PluginInfo{{Name: "example.io/p", Kind: "ObjectStore"}}, q.Status.Plugins)
	require.Equal(t, "stays", q.Annotations["own"])
	require.JSONEq(t, `{"directory":"/plugins","plugins":[{"name":"example.io/p","status":"InUse"}]}`, q.Annotations[serverreport.PluginsAnnotation])
	require.JSONEq(t, `{"backup":"b","names":["a"]}`, q.Annotations[serverreport.BlockersAnnotation])
	require.JSONEq(t, `{"concurrentBackups":3,"policies":[{"kind":"QueueAdmission","plugin":"a.b/c","failurePolicy":"Hold"}]}`, q.Annotations[serverreport.PoliciesAnnotation])

	now = now.Add(time.Minute)
	_, err = r.Reconcile(t.Context(), c.Request("q"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("q").NamespacedName, &q)))
}

func TestUnansweredDownloadRequestIsDeletedInTheEnd(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec:       velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindRestoreLog, Name: "none"}},
	})
	now := time.Now()
	r := &Downloads{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: func() time.Time { return now }}
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	require.ErrorContains(t, err, "make the URL of RestoreLog none: get restore none")
	now = now.Add(11 * time.Minute)
	_, err = r.Reconcile(t.Context(), c.Request("d"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("d").NamespacedName, &velerov1.DownloadRequest{})))
}
