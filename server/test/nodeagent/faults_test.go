package nodeagent_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
)

// TestAcceptVolumes_CancelEverywhere cancels loads of all kinds in each phase. All end Canceled, and others continue.
func TestAcceptVolumes_CancelEverywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 2}}`)
	node := s.nodes[0]
	s.agent(node)
	snapshot := s.snapshot()
	s.hold(node)
	running, prepared, accepted := s.backup("running", node), s.backup("prepared", node), s.upload("accepted")
	s.create(running)
	s.awaitPhase("PodVolumeBackup/running", velerov1.LoadPhaseInProgress)
	s.create(prepared)
	s.awaitPhase("PodVolumeBackup/prepared", velerov1.LoadPhasePrepared)
	s.create(accepted)
	s.awaitPhase("DataUpload/accepted", velerov1.LoadPhaseAccepted)

	fresh := []client.Object{s.backup("new", node), s.restore("new", node, snapshot), s.upload("new"),
		s.download("new", snapshot)}
	s.create(fresh...)
	s.await("all wait", func(last map[string]state) bool {
		waiting := 0
		for _, o := range last {
			if o.name == "new" && o.message != "" {
				waiting++
			}
		}
		return waiting == len(fresh)
	})
	for _, object := range append(fresh, running, prepared, accepted) {
		s.change(object, func() { cancelLoad(object) })
	}
	s.awaitEnd(8)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCanceled: 7, velerov1.LoadPhaseCompleted: 1}, s.ends())
	s.history.mu.Lock()
	for name, want := range map[string]string{
		"PodVolumeBackup/running":  "canceled while its data was moved",
		"PodVolumeBackup/prepared": "canceled while it was Prepared, because spec.cancel was set",
		"DataUpload/accepted":      "canceled while it was Accepted, because spec.cancel was set",
		"DataDownload/new":         "canceled while it was New, because spec.cancel was set",
	} {
		require.Equal(t, want, s.history.last[name].message)
	}
	s.history.mu.Unlock()
	s.release(node)
	s.create(s.backup("after", node))
	s.awaitPhase("PodVolumeBackup/after", velerov1.LoadPhaseCompleted)
}

// TestAcceptVolumes_Orphans has an agent that ends the loads of others that do not return, at once if their node no
// longer exists. A DataUpload or DataDownload begins again then. It does not end loads for which that is unknown.
func TestAcceptVolumes_Orphans(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	long := &metav1.Time{Time: time.Now().Add(-time.Hour)}
	of := func(phase velerov1.LoadPhase) velerov1.LoadStatus {
		return velerov1.LoadStatus{Phase: phase, AcceptedTimestamp: long}
	}
	accepted, recent, foreign := s.upload("accepted"), s.upload("recent"), s.upload("foreign")
	accepted.Status.LoadStatus, accepted.Status.AcceptedByNode = of(velerov1.LoadPhaseAccepted), s.nodes[1]
	recent.Status.LoadStatus, recent.Status.AcceptedByNode = of(velerov1.LoadPhaseAccepted), s.nodes[1]
	recent.Status.AcceptedTimestamp = &metav1.Time{Time: time.Now()}
	foreign.Status, foreign.Spec.DataMover = accepted.Status, "velero"
	prepared, running, slow := s.backup("prepared", s.nodes[1]), s.backup("running", s.nodes[1]), s.backup("slow",
		s.nodes[1])
	prepared.Status.LoadStatus, prepared.Spec.Node = of(velerov1.LoadPhasePrepared), "gone"
	running.Status.LoadStatus, running.Spec.Node = of(velerov1.LoadPhaseInProgress), "gone"
	slow.Status.LoadStatus = of(velerov1.LoadPhaseInProgress)
	s.create(accepted, recent, foreign, prepared, running, slow)
	lost := s.lost("gone")
	s.create(lost...)
	s.agent(s.nodes[0])
	for _, object := range lost {
		kind, phase, _ := strings.Cut(object.GetName(), "-")
		key := map[string]string{"pvb": "PodVolumeBackup", "pvr": "PodVolumeRestore", "du": "DataUpload",
			"dd": "DataDownload"}[kind] + "/" + object.GetName()
		if strings.HasPrefix(kind, "d") && phase != "canceling" {
			s.retry(key+" is accepted by another agent", func(ctx context.Context) error {
				err := s.client.Get(ctx, client.ObjectKeyFromObject(object), object)
				if last := s.last(key); err == nil && (attemptOf(object) != "2" || last.phase != velerov1.LoadPhaseAccepted) {
					err = fmt.Errorf("attempt %s is %s", attemptOf(object), last.phase)
				}
				return err
			})
			continue
		}
		require.Equal(t, "node gone, which had its volume, does not exist any more",
			s.awaitPhase(key, velerov1.LoadPhaseFailed).message, key)
	}
	for key, want := range map[string]string{
		"DataUpload/accepted": "timeout on preparing DataUpload: the agent of node " + s.nodes[1] +
			", which has accepted it, did not prepare it within 30m0s and does not respond",
		"PodVolumeBackup/prepared": "node gone, which had its volume, does not exist any more",
		"PodVolumeBackup/running":  "node gone, which had its volume, does not exist any more",
	} {
		require.Equal(t, want, s.awaitPhase(key, velerov1.LoadPhaseFailed).message)
	}
	require.Eventually(t, func() bool { // events are sent in the background
		var events eventsv1.EventList
		return s.client.List(t.Context(), &events, client.InNamespace(s.namespace)) == nil &&
			slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
				return e.Regarding.Name == "running" && e.Reason == "Failed" &&
					e.Note == "node gone, which had its volume, does not exist any more"
			})
	}, patience, 100*time.Millisecond)
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for key, phase := range map[string]velerov1.LoadPhase{
		"DataUpload/recent": velerov1.LoadPhaseAccepted, "DataUpload/foreign": velerov1.LoadPhaseAccepted,
		"PodVolumeBackup/slow": velerov1.LoadPhaseInProgress,
	} {
		require.Equal(t, phase, s.history.last[key].phase, key)
	}
}

// TestAcceptVolumes_LostNode backs up a pod whose node is deleted before its agent has done anything. The backup ends
// soon, with the reason.
func TestAcceptVolumes_LostNode(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 2)
	shop, db := f.shop()
	pod := agentPodOn(f.namespace, db.Spec.NodeName)
	f.run(pod, nil)
	f.agent(f.nodes[1])
	f.serve()
	f.create(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{shop}}})
	f.retry("volumes are backed up", func(ctx context.Context) error {
		if loads := f.loadsOf(ctx, "b"); len(loads) < 2 {
			return fmt.Errorf("there are %d PodVolumeBackups", len(loads))
		}
		return nil
	})
	require.NoError(t, f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: db.Spec.NodeName}}))
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, f.ended("b").Status.Phase)
	// The server reports the same in other words if it finds before the agents that the pod of the agent no longer
	// exists.
	gone := "(node " + db.Spec.NodeName + ", which had its volume, does not exist any more|no node agent runs on node " +
		db.Spec.NodeName + ")"
	for _, load := range f.loadsOf(t.Context(), "b") {
		require.Equal(t, velerov1.LoadPhaseFailed, load.Status.Phase)
		require.Regexp(t, gone, load.Status.Message)
	}
	require.Regexp(t, "volume data: Failed: "+gone, f.results("backups", "b"))
}

// lost returns loads of all kinds in all phases in which they belong to a node. They have just begun there.
func (s *site) lost(node string) (lost []client.Object) {
	at := &metav1.Time{Time: time.Now()}
	phases := []velerov1.LoadPhase{velerov1.LoadPhaseAccepted, velerov1.LoadPhasePrepared, velerov1.LoadPhaseInProgress,
		velerov1.LoadPhaseCanceling}
	fresh := s.backup("pvb-new", s.nodes[1])
	fresh.Spec.Node = node
	lost = append(lost, fresh)
	for _, phase := range phases {
		status, name := velerov1.LoadStatus{Phase: phase, AcceptedTimestamp: at}, "-"+strings.ToLower(string(phase))
		pvb, pvr := s.backup("pvb"+name, s.nodes[1]), s.restore("pvr"+name, s.nodes[1], "snapshot")
		du, dd := s.upload("du"+name), s.download("dd"+name, "snapshot")
		pvb.Spec.Node, pvr.Status.Node, du.Status.AcceptedByNode, dd.Status.AcceptedByNode = node, node, node, node
		pvb.Status.LoadStatus, pvr.Status.LoadStatus, du.Status.LoadStatus, dd.Status.LoadStatus = status, status, status,
			status
		if phase != velerov1.LoadPhaseAccepted {
			du.Status.Node, dd.Status.Node = node, node
		}
		lost = append(lost, pvb, pvr, du, dd)
	}
	return lost
}

func cancelLoad(object client.Object) {
	switch o := object.(type) {
	case *velerov1.PodVolumeBackup:
		o.Spec.Cancel = true
	case *velerov1.PodVolumeRestore:
		o.Spec.Cancel = true
	case *velerov2alpha1.DataUpload:
		o.Spec.Cancel = true
	case *velerov2alpha1.DataDownload:
		o.Spec.Cancel = true
	}
}

// gate is a proxy of the API server that kills an agent when one of its writes is stored, before the reply.
type gate struct {
	kill func()
	at   int

	mu     sync.Mutex
	writes []string
}

// newGate returns the kubeconfig of a gate that calls kill after a number of writes.
func (s *site) newGate(at int, kill func()) (g *gate, kubeconfig string) {
	s.t.Helper()
	g = &gate{at: at, kill: kill}
	cluster := shared.Get(s.t)
	target, err := url.Parse(cluster.APIServer)
	require.NoError(s.t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+cluster.Token) // clients send it by TLS only
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // the server of the test
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method != http.MethodGet && r.StatusCode < 300 {
				g.wrote(r.Request.Method + " " + r.Request.URL.Path)
			}
			return nil
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(proxy)
	s.t.Cleanup(server.CloseClientConnections)
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, server.URL)
	kubeconfig = filepath.Join(s.t.TempDir(), "kubeconfig")
	require.NoError(s.t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return g, kubeconfig
}

func (g *gate) wrote(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, what)
	if len(g.writes) == g.at {
		g.kill()
	}
}

// TestAcceptVolumes_KillEverywhere kills an agent after each of its writes, before it gets the reply. The next one
// completes every load.
func TestAcceptVolumes_KillEverywhere(t *testing.T) {
	t.Parallel()
	const all = 14 // more than the writes of the first load
	s := newSite(t, 1)
	node := s.nodes[0]
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 1}}`)
	killed := 0
	for at := 1; at <= all; at++ {
		names := []string{fmt.Sprintf("a-%d", at), fmt.Sprintf("b-%d", at)}
		for _, name := range names {
			s.create(s.backup(name, node))
		}
		var first *agent
		started := make(chan struct{})
		g, kubeconfig := s.newGate(at, func() { <-started; first.kill() })
		first = s.agent(node, "--kubeconfig", kubeconfig)
		close(started)
		s.awaitEndOf(first, names...)
		first.kill()
		g.mu.Lock()
		if len(g.writes) >= at {
			killed++
		}
		g.mu.Unlock()
		second := s.agent(node)
		s.awaitEnd(2 * at)
		second.kill()
		for _, name := range names {
			s.history.mu.Lock()
			end := s.history.last["PodVolumeBackup/"+name]
			s.history.mu.Unlock()
			require.Equal(t, velerov1.LoadPhaseCompleted, end.phase, end.message)
		}
	}
	require.Greater(t, killed, 8)
	require.Equal(t, map[string]int{"": 1}, s.most(preparing))
}

// awaitEndOf waits until an agent is killed, or all PodVolumeBackups with the names have ended.
func (s *site) awaitEndOf(a *agent, names ...string) {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		_ = a.wait()
		close(done)
		s.history.changed.Broadcast()
	}()
	s.await("the agent is killed or has done all", func(last map[string]state) bool {
		select {
		case <-done:
			return true
		default:
		}
		return !slices.ContainsFunc(names,
			func(name string) bool { return !last["PodVolumeBackup/"+name].phase.Terminal() })
	})
}
