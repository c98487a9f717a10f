package console_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// podLog answers as a kubelet does when the API server asks for the log of the pod of a server.
type podLog struct {
	s    *site.Site
	pod  *corev1.Pod
	mu   sync.Mutex
	was  []string // of the container before
	is   []string
	kept bool          // the log of the container before is kept
	cut  chan struct{} // closed to end streams
}

// runServerPod creates a pod of a server on a node of its own, whose log the test writes.
func runServerPod(s *site.Site) *podLog {
	s.T.Helper()
	l := &podLog{s: s, cut: make(chan struct{}), kept: true}
	kubelet := httptest.NewTLSServer(http.HandlerFunc(l.serve))
	s.T.Cleanup(func() {
		l.endStreams()
		kubelet.CloseClientConnections()
		kubelet.Close()
	})
	_, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	require.NoError(s.T, err)
	number, err := strconv.Atoi(port)
	require.NoError(s.T, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + s.Namespace},
		Spec: corev1.NodeSpec{Unschedulable: true}}
	require.NoError(s.T, s.Client.Create(s.T.Context(), node))
	s.T.Cleanup(func() { _ = s.Client.Delete(context.WithoutCancel(s.T.Context()), node) })
	before := node.DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number) //nolint:gosec // a port
	require.NoError(s.T, s.Client.Status().Patch(s.T.Context(), node, client.MergeFrom(before)))
	l.pod = serverPod(s, "server-1")
	l.pod.Spec.NodeName = node.Name
	s.Eventually("the pod is created", func(ctx context.Context) (bool, error) { // its account may not exist yet
		return s.Client.Create(ctx, l.pod) == nil, nil
	})
	l.started("first", 0)
	return l
}

// serverPod returns a pod that runs a server.
func serverPod(s *site.Site, name string, args ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "velero", Image: "cleat.invalid/cleat:1", Command: []string{"/velero"},
			Args: append([]string{"server"}, args...)}}}}
}

// started says in the status of the pod which container runs.
func (l *podLog) started(id string, restarts int32) {
	l.s.T.Helper()
	before := l.pod.DeepCopy()
	l.pod.Status.Phase = corev1.PodRunning
	l.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "velero", ContainerID: "containerd://" + id,
		RestartCount: restarts}}
	if restarts > 0 {
		l.pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 137, FinishedAt: metav1.Now()}
	}
	require.NoError(l.s.T, l.s.Client.Status().Patch(l.s.T.Context(), l.pod, client.MergeFrom(before)))
}

// write adds an entry of the server about a run, which may have several lines.
func (l *podLog) write(text, of string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, line := range strings.Split(text, "\n") {
		if i == 0 {
			line = time.Now().UTC().Format("2006-01-02T15:04:05.000Z0700") + " [INFO]  " + line + ": backup=" + of
		}
		l.is = append(l.is, time.Now().UTC().Format(time.RFC3339Nano)+" "+line)
	}
}

// restart has another container run. A line that was written before the end was not read by anyone.
func (l *podLog) restart(id string, restarts int32, last, of string) {
	l.s.T.Helper()
	l.endStreams()
	l.write(last, of)
	l.mu.Lock()
	l.was, l.is = l.is, nil
	l.mu.Unlock()
	l.started(id, restarts)
}

func (l *podLog) endStreams() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.cut)
	l.cut = make(chan struct{})
}

// serve serves the log since a time.
func (l *podLog) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	since, _ := time.Parse(time.RFC3339, query.Get("sinceTime"))
	l.mu.Lock()
	cut, lines, kept := l.cut, &l.is, l.kept
	if query.Get("previous") == "true" {
		lines = &l.was
	}
	l.mu.Unlock()
	switch {
	case r.URL.Path != "/containerLogs/"+l.s.Namespace+"/server-1/velero", query.Get("timestamps") != "true":
		http.Error(w, "unexpected: "+r.URL.String(), http.StatusInternalServerError)
		return
	case lines == &l.was && !kept:
		http.Error(w, "previous terminated container not found", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
	for sent := 0; ; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		now := (*lines)[min(sent, len(*lines)):]
		l.mu.Unlock()
		for _, line := range now {
			stamp, _, _ := strings.Cut(line, " ")
			if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && !at.Before(since) {
				fmt.Fprintln(w, line)
			}
		}
		sent += len(now)
		w.(http.Flusher).Flush() //nolint:forcetypeassert // of net/http
		select {
		case <-cut:
			return
		case <-r.Context().Done():
			return
		default:
		}
		if query.Get("follow") != "true" {
			return
		}
	}
}

// TestAcceptConsole_LiveLog reads the log of a run that has not ended from the pod of a server, on a page and by the
// command: only its own lines, as text, without what could control a terminal, each once although the server is
// restarted. Who may not read that log is told so. When the run ends, the stored log takes over.
func TestAcceptConsole_LiveLog(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	held := hold(s, "held")
	c := open(t, s)
	user := c.user()
	const path = "/backups/held/log"
	page := user.events(path)
	page.until("no pod in namespace " + s.Namespace + " runs the server")
	log := runServerPod(s)
	own := s.Namespace + "/held"
	log.write("begins", own)
	log.write("of another", s.Namespace+"/heldbeside")
	log.write("evil <script>alert('x')</script>\x1b[31m\n  error=\n  | second <img src=x>", own)
	text := page.until("second &lt;img")
	for _, want := range []string{"begins: backup=" + own, "evil &lt;script&gt;", "of 4 lines so far", "--follow"} {
		require.Contains(t, text, want)
	}
	for _, not := range []string{"of another", "<script", "<img", "\x1b"} {
		require.NotContains(t, text, not)
	}
	began := time.Now()
	log.write("a line of now", own)
	page.until("a line of now")
	t.Logf("a line was on the page after %s", time.Since(began).Round(time.Millisecond))

	// the log of another server cannot be read
	second := serverPod(s, "server-2")
	second.Spec.NodeName = log.pod.Spec.NodeName
	require.NoError(t, s.Client.Create(t.Context(), second))
	before := second.DeepCopy()
	second.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "velero", ContainerID: "containerd://x"}}
	require.NoError(t, s.Client.Status().Patch(t.Context(), second, client.MergeFrom(before)))
	require.Contains(t, page.until("the log of pod server-2 cannot be read, and is tried again"), "a line of now")
	require.NoError(t, s.Client.Delete(t.Context(), second, client.GracePeriodSeconds(0)))

	follow := exec.Command(site.Program(t), "backup", "logs", "held", "-f", "--kubeconfig", s.Kubeconfig, "--namespace",
		s.Namespace)
	var printed site.LogBuffer
	follow.Stdout, follow.Stderr = &printed, &printed
	require.NoError(t, follow.Start())

	// the server is restarted, with a line that nobody has read
	log.restart("second", 1, "the last line", own)
	log.write("the server is back", own)
	text = page.until("the server is back")
	for _, once := range []string{"begins", "a line of now", "the last line", "the server is back"} {
		require.Equal(t, 1, strings.Count(text, once), "%s: %s", once, text)
	}
	require.NotContains(t, text, "cannot be read")
	var document struct {
		Live  bool
		Count int
		Lines []string
	}
	user.json(path+"?search=Is+BACK", &document)
	require.True(t, document.Live)
	require.Equal(t, 7, document.Count)
	require.Len(t, document.Lines, 1)

	// it is restarted again, and nothing of its last container is kept
	s.Eventually("the command has the last line, too", func(context.Context) (bool, error) {
		return strings.Contains(printed.String(), "the server is back"), nil
	})
	log.mu.Lock()
	log.kept = false
	log.mu.Unlock()
	log.restart("third", 2, "lost", own)
	log.write("the third one", own)
	require.Contains(t, page.until("the third one"), "the log of server-1 before that is not kept")

	// rights
	cluster := inCluster(t, s)
	pods := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}
	}
	podLogs := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}}
	for name, tt := range map[string]struct {
		rules []rbacv1.PolicyRule
		says  string
	}{
		"no-logs": {[]rbacv1.PolicyRule{reads(), pods("list")}, "you may not get pods/log in namespace " + s.Namespace},
		"no-pods": {[]rbacv1.PolicyRule{reads(), podLogs}, "you may not list pods in namespace " + s.Namespace},
		"both":    {[]rbacv1.PolicyRule{reads(), pods("list"), podLogs}, "the third one"},
	} {
		guest := cluster.account(account(s, name, tt.rules...))
		shown := guest.events(path).until(tt.says)
		require.Equal(t, name == "both", strings.Contains(shown, "the third one: "), shown)
		if name != "both" {
			continue
		}
		require.NoError(t, s.Client.Delete(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}))
		s.Eventually("the rights are gone", func(context.Context) (bool, error) {
			return !strings.Contains(guest.get(path).text, "the third one: "), nil
		})
	}

	// the run ends
	require.NoError(t, s.Client.Get(t.Context(), s.Key("held"), held))
	held.Status.Phase, held.Status.CompletionTimestamp = velerov1.BackupPhaseFailedValidation, new(metav1.Now())
	require.NoError(t, s.Client.Update(t.Context(), held))
	require.NotContains(t, page.until("There is no log; the phase is FailedValidation."), "begins")
	require.NoError(t, follow.Wait(), printed.String())
	for _, once := range []string{"begins: backup=", "| second <img src=x>", "the last line", "the server is back",
		"Backup held has ended: FailedValidation"} {
		require.Equal(t, 1, strings.Count(printed.String(), once), "%s: %s", once, printed.String())
	}
	require.NotContains(t, printed.String(), "\x1b")
	require.NotContains(t, printed.String(), "of another")
}
