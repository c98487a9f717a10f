package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/loads"
)

const (
	soothedLoads  = 500 // that wait
	soothedPlaces = 2
)

// soothing reports the cost of the admission of loads with 500 queued, by an agent that is a process:
// "soothing_calls_per_load", the requests for each admitted load except the write of Accepted, including one for its
// reason to wait; "soothing_reads", the reads of loads by get or list after the start; and "admit_over_watch", the
// time from the end of a load to Accepted of the next, divided by the time of a bare program that watches and writes.
// "agent_rss" is the peak memory in MB of the agent with 1,000 New loads, "agent_rss_growth" the same divided by the
// one with 100.
func soothing(ctx context.Context, s *site, report func(string, float64)) error {
	c, _, err := s.queueClient()
	if err != nil {
		return err
	}
	if err := build(ctx, "../test/nodeagent/testdata/mover", filepath.Join(s.WorkDir, "movers", "mover")); err != nil {
		return err
	}
	if err := addNode(ctx, c, metav1.NamespaceDefault, soothedPlaces); err != nil {
		return err
	}
	var sizes []float64
	for _, loads := range []int{100, 2 * soothedLoads} {
		if err := fillUploads(ctx, c, loads); err != nil {
			return err
		}
		a, err := startAgent(ctx, s)
		if err != nil {
			return err
		}
		time.Sleep(12 * time.Second) // all reasons are written by then
		size, err := peakOf(a.cmd.Process.Pid)
		a.stop()
		if err != nil {
			return err
		}
		sizes = append(sizes, size/1024)
	}
	report("agent_rss", sizes[1])
	report("agent_rss_growth", sizes[1]/sizes[0])

	if err := fillUploads(ctx, c, soothedLoads); err != nil {
		return err
	}
	a, err := startAgent(ctx, s)
	if err != nil {
		return err
	}
	defer a.stop()
	time.Sleep(12 * time.Second)
	watch, err := c.Watch(ctx, &velerov2alpha1.DataUploadList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		return err
	}
	defer watch.Stop()
	told := float64(a.tells.Load()) / soothedLoads
	a.ledger.Store(0)
	a.reads.Store(0)
	took, err := admissions(ctx, c, watch)
	if err != nil {
		return err
	}
	report("soothing_calls_per_load", told+float64(a.ledger.Load())/float64(len(took)))
	report("soothing_reads", float64(a.reads.Load()))
	bare, err := bareWakes(ctx, c)
	if err != nil {
		return err
	}
	report("admit_over_watch", median(took)/median(bare))
	return nil
}

// fillUploads deletes all DataUploads, and the ledger with their notes, and creates new ones. No agent runs meanwhile.
func fillUploads(ctx context.Context, c client.Client, count int) error {
	var list velerov2alpha1.DataUploadList
	if err := c.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	for i := range list.Items {
		upload := &list.Items[i]
		upload.Finalizers = nil
		if err := client.IgnoreNotFound(c.Update(ctx, upload)); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, upload)); err != nil {
			return err
		}
	}
	ledger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
		Name: "cleat-node-agents"}}
	if err := client.IgnoreNotFound(c.Delete(ctx, ledger)); err != nil {
		return err
	}
	owner := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "soothed-"}}
	if err := loads.Begin(ctx, c, owner); err != nil {
		return err
	}
	var uploads []client.Object
	for i := range count {
		uploads = append(uploads, &velerov2alpha1.DataUpload{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("u-%d-%d", count, i)},
			Spec: velerov2alpha1.DataUploadSpec{SnapshotType: "CSI", DataMover: "example.io/mover",
				SourceNamespace: "shop"},
		})
	}
	if err := loads.Sign(ctx, c, owner, uploads...); err != nil {
		return err
	}
	for _, upload := range uploads {
		if err := c.Create(ctx, upload); err != nil {
			return err
		}
	}
	return nil
}

// admissions ends Accepted loads, and returns the milliseconds until the next was Accepted.
func admissions(ctx context.Context, c client.Client, watch apiwatch.Interface) ([]float64, error) {
	var list velerov2alpha1.DataUploadList
	if err := c.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return nil, err
	}
	accepted := map[string]*velerov2alpha1.DataUpload{}
	for i := range list.Items {
		if u := &list.Items[i]; u.Status.Phase == velerov1.LoadPhaseAccepted {
			accepted[u.Name] = u
		}
	}
	known := map[string]bool{}
	for name := range accepted {
		known[name] = true
	}
	var took []float64
	for range wakes {
		var ended *velerov2alpha1.DataUpload
		for name, u := range accepted {
			ended = u
			delete(accepted, name)
			break
		}
		if ended == nil {
			return nil, errors.New("no load is Accepted")
		}
		after := ended.DeepCopy()
		after.Status.Phase = velerov1.LoadPhaseCompleted
		began := time.Now()
		if err := c.Patch(ctx, after, client.MergeFrom(ended)); err != nil {
			return nil, err
		}
		for event := range watch.ResultChan() {
			u, ok := event.Object.(*velerov2alpha1.DataUpload)
			if ok && u.Status.Phase == velerov1.LoadPhaseAccepted && !known[u.Name] {
				known[u.Name] = true
				accepted[u.Name] = u
				took = append(took, time.Since(began).Seconds()*1000)
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return took, nil
}

// measuredAgent is a node agent whose requests are counted.
type measuredAgent struct {
	cmd                  *exec.Cmd
	server               *httptest.Server
	ledger, tells, reads atomic.Int64
}

func (a *measuredAgent) stop() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	a.server.CloseClientConnections()
	a.server.Close()
}

// startAgent starts an agent behind a proxy.
func startAgent(ctx context.Context, s *site) (*measuredAgent, error) {
	target, err := url.Parse(s.cluster.APIServer)
	if err != nil {
		return nil, err
	}
	a := &measuredAgent{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+s.cluster.Token)
			load := strings.Contains(r.In.URL.Path, "/datauploads")
			switch method := r.In.Method; {
			case strings.HasSuffix(r.In.URL.Path, "/configmaps/cleat-node-agents") && method != http.MethodGet:
				a.ledger.Add(1)
			case load && method == http.MethodPatch:
				a.tells.Add(1) // Accepted as well, before the measurement
			case load && method == http.MethodGet && r.In.URL.Query().Get("watch") == "":
				a.reads.Add(1)
			}
		},
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16}, //nolint:gosec // the server of the benchmark
		FlushInterval: -1,
	}
	a.server = httptest.NewServer(proxy)
	kubeconfig := filepath.Join(s.WorkDir, "agent-kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, a.server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return nil, err
	}
	a.cmd = s.agent(ctx, kubeconfig, metav1.NamespaceDefault, s.WorkDir, filepath.Join(s.WorkDir, "movers"))
	return a, a.cmd.Start()
}
