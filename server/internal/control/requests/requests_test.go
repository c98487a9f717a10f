package requests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func TestStatusRequestIsAnsweredAndDeleted(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.ServerStatusRequest{ObjectMeta: metav1.ObjectMeta{
		Name: "q", Annotations: map[string]string{"own": "stays", serverreport.PluginDetailsAnnotation: "p",
			serverreport.BlockersOfAnnotation: "b"},
	}})
	now := time.Now()
	r := &Statuses{Cluster: c.Cluster, Keys: testKeys(), Version: "v1", Now: func() time.Time { return now },
		Plugins: func() []velerov1.PluginInfo {
			return []velerov1.PluginInfo{{Name: "example.io/p", Kind: "ObjectStore"}}
		}, Report: func(_ context.Context, details string) *serverreport.PluginReport {
			return &serverreport.PluginReport{Directory: "/plugins",
				Plugins: []serverreport.Plugin{{Name: "example.io/" + details, Status: serverreport.InUse}}}
		}, Policies: func() *serverreport.PolicyReport {
			return &serverreport.PolicyReport{ConcurrentBackups: 3,
				Policies: []serverreport.Policy{{Kind: "QueueAdmission", Plugin: "a.b/c", FailurePolicy: "Hold"}}}
		}, Blockers: func(_ context.Context, backup string) (*serverreport.Blockers, error) {
			return &serverreport.Blockers{Backup: backup, Names: []string{"a"}}, nil
		}}
	result, err := r.Reconcile(t.Context(), c.Request("q"))
	require.NoError(t, err)
	require.Equal(t, time.Minute, result.RequeueAfter)
	var q velerov1.ServerStatusRequest
	require.NoError(t, c.Get(t.Context(), c.Request("q").NamespacedName, &q))
	require.Equal(t, velerov1.ServerStatusRequestPhaseProcessed, q.Status.Phase)
	require.Equal(t, "v1", serverreport.ServerVersion(&q))
	require.Equal(t, "v1.18.3+cleat.v1", q.Status.ServerVersion, "Velero's client compares it with its own")
	require.Equal(t, []velerov1.PluginInfo{{Name: "example.io/p", Kind: "ObjectStore"}}, q.Status.Plugins)
	require.Equal(t, "stays", q.Annotations["own"])
	require.JSONEq(t, `{"directory":"/plugins","plugins":[{"name":"example.io/p","status":"InUse"}]}`,
		q.Annotations[serverreport.PluginsAnnotation])
	require.JSONEq(t, `{"backup":"b","names":["a"]}`, q.Annotations[serverreport.BlockersAnnotation])
	require.JSONEq(t, `{"concurrentBackups":3,"policies":[{"kind":"QueueAdmission","plugin":"a.b/c","failurePolicy":"Hold"}]}`, q.Annotations[serverreport.PoliciesAnnotation])

	now = now.Add(time.Minute)
	_, err = r.Reconcile(t.Context(), c.Request("q"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("q").NamespacedName, &q)))
}

func TestStatusRequestAboutOperations(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	var asked []string
	r := &Statuses{
		Cluster: c.Cluster, Keys: testKeys(), Now: time.Now, Plugins: func() []velerov1.PluginInfo { return nil },
		Report: func(context.Context, string) *serverreport.PluginReport { panic("nobody has asked for it") },
		Operations: func(owners []string) *serverreport.Operations {
			asked = owners
			return serverreport.NewOperations(time.Unix(60, 0).UTC(),
				[]serverreport.OperationsOf{{Kind: "Backup", Name: "b", Operations: []serverreport.Operation{
					{Plugin: "a.b/c", ID: "1", Resource: "pods", Name: "p", Phase: "New", Done: -1, Total: 5},
				}}})
		},
	}
	for i, tt := range []struct {
		of   string
		want []string
	}{{"", []string{}}, {"backup/b,restore/r", []string{"backup/b", "restore/r"}}} {
		name := fmt.Sprintf("o%d", i)
		c.Add(t, &velerov1.ServerStatusRequest{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{serverreport.OperationsOfAnnotation: tt.of}}})
		_, err := r.Reconcile(t.Context(), c.Request(name))
		require.NoError(t, err)
		require.Equal(t, tt.want, asked)
		var q velerov1.ServerStatusRequest
		require.NoError(t, c.Get(t.Context(), c.Request(name).NamespacedName, &q))
		require.JSONEq(t, `{"time":"1970-01-01T00:01:00Z","open":1,"completed":0,"failed":0,"amounts":[{"done":-1,"total":5}],"owners":[
			{"kind":"Backup","name":"b","open":1,"completed":0,"failed":0,"amounts":[{"done":-1,"total":5}],"operations":[
				{"plugin":"a.b/c","id":"1","resource":"pods","name":"p","phase":"New","done":-1,"total":5}]}]}`, q.Annotations[serverreport.OperationsAnnotation])
	}
}

func TestUnansweredDownloadRequestIsDeletedInTheEnd(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindRestoreLog,
			Name: "none"}},
	})
	now := time.Now()
	r := &Downloads{Cluster: c.Cluster, Keys: testKeys(), Stores: controllertest.ClosedStores{},
		Log: hclog.NewNullLogger(), Now: func() time.Time { return now }}
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	require.ErrorContains(t, err, "make the URL of RestoreLog none: get restore none")
	now = now.Add(11 * time.Minute)
	_, err = r.Reconcile(t.Context(), c.Request("d"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("d").NamespacedName, &velerov1.DownloadRequest{})))
}
