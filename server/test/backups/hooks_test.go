package backups_test

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/kubelet"
	"github.com/cleat-dev/cleat/server/test/site"
)

// hookSite is a site whose pods run on a kubelet.
type hookSite struct {
	*site.Site
	kubelet *kubelet.Kubelet
}

func newHookSite(t *testing.T) *hookSite {
	t.Helper()
	s := site.New(t, "cleat.dev/s3")
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	s.Shop = s.Workload(1)
	return &hookSite{Site: s, kubelet: kubelet.ForTest(t, config)}
}

// pod creates a running pod with containers "app" and "side", and annotations.
func (s *hookSite) pod(name string, annotations ...string) {
	s.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: name, Labels: map[string]string{"app": name},
			Annotations: map[string]string{}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}, {Name: "side", Image: "side"}}},
	}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	s.Eventually("pod "+name+" is created", func(ctx context.Context) (bool, error) {
		// its service account may not exist yet
		err := s.Client.Create(ctx, pod)
		return err == nil || apierrors.IsAlreadyExists(err), nil
	})
	require.NoError(s.T, s.kubelet.Run(s.T.Context(), s.Shop, name, true))
}

// did returns the lines that the hooks of a pod have appended to the file "did".
func (s *hookSite) did(namespace, pod string) []string {
	s.T.Helper()
	content, err := os.ReadFile(filepath.Join(s.kubelet.Dir(namespace, pod), "did"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(s.T, err)
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// log returns a stored log, and requires that no line of it is long.
func (s *hookSite) log(path ...string) string {
	s.T.Helper()
	var log strings.Builder
	lines := bufio.NewScanner(s.Unzipped(path...))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
	}
	require.NoError(s.T, lines.Err())
	return log.String()
}

// shell returns a command in an annotation.
func shell(script string) string { return `["sh", "-c", "` + script + `"]` }

func TestAcceptBackup_Hooks(t *testing.T) {
	t.Parallel()
	t.Run("backup", testBackupHooks)
	t.Run("block", testHooksOfABlock)
	t.Run("cancelled backup", testHooksOfACancelledBackup)
	t.Run("server killed in a backup", testHooksOfAnInterruptedBackup)
	t.Run("restore", testRestoreHooks)
	t.Run("restore with onError Fail", testHaltedHooks)
	t.Run("killed server", testHooksOfAKilledServer)
	t.Run("cancelled restore", testCancelledHooks)
}

// testBackupHooks makes a backup of pods with hooks of all kinds, good and bad.
func testBackupHooks(t *testing.T) {
	t.Parallel()
	const pre, post = "pre.hook.backup.velero.io/", "post.hook.backup.velero.io/"
	s := newHookSite(t)
	s.pod("web")
	s.pod("db", pre+"command", shell("echo pre-$CONTAINER | tee -a did"), pre+"container", "side", post+"command",
		shell("echo post >> did"))
	s.pod("broken", pre+"command", shell("echo no space left >&2; exit 3"), post+"command", shell("echo post >> did"))
	s.pod("lax", pre+"command", shell("exit 4"), pre+"on-error", "Continue", post+"command", shell("echo post >> did"))
	s.pod("hangs", pre+"command", shell("sleep 1000"), pre+"timeout", "2s", pre+"on-error", "Continue")
	s.pod("forks", pre+"command", shell("sleep 1000 & echo forked"), pre+"timeout", "10s", pre+"on-error", "Continue")
	s.pod("prints", pre+"command", shell("echo first; head -c 100000000 /dev/zero | tr '\\\\0' x"),
		pre+"timeout", "10m")
	s.pod("lost", pre+"command", "true", pre+"container", "none", pre+"on-error", "Continue")
	s.Serve("--item-block-worker-count", "4")
	s.Available()
	hooks := func(line string, onError velerov1.HookErrorMode) []velerov1.BackupResourceHook {
		return []velerov1.BackupResourceHook{
			{Exec: &velerov1.ExecHook{Command: []string{"sh", "-c", "echo " + line + " >> did"}, OnError: onError,
				Timeout: metav1.Duration{Duration: time.Minute}}},
		}
	}
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "hooked"},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{s.Shop},
			Hooks: velerov1.BackupHooks{Resources: []velerov1.BackupResourceHookSpec{
				{Name: "web", LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": "web"}), PreHooks: hooks("pre", ""),
					PostHooks: hooks("post", velerov1.HookErrorModeFail)},
				{Name: "elsewhere", IncludedNamespaces: []string{"elsewhere"}, PreHooks: hooks("wrong", "")},
			}}},
	}))
	b := s.AwaitBackup("hooked", velerov1.BackupPhasePartiallyFailed)
	require.Equal(t, &velerov1.HookStatus{HooksAttempted: 11, HooksFailed: 5}, b.Status.HookStatus)
	require.Equal(t, []string{"pre", "post"}, s.did(s.Shop, "web"))
	require.Equal(t, []string{"pre-side", "post"}, s.did(s.Shop, "db"))
	require.Empty(t, s.did(s.Shop, "broken"), "after a pre hook that has failed with onError Fail, there is no post hook")
	require.Equal(t, []string{"post"}, s.did(s.Shop, "lax"))

	pods := site.Gzipped[map[string][]string](s.Site, "backups/hooked/hooked-resource-list.json.gz")["v1/Pod"]
	var want []string
	for _, name := range []string{"db", "forks", "hangs", "lax", "lost", "prints", "web"} {
		want = append(want, s.Shop+"/"+name)
	}
	require.Equal(t, want, pods)
	messages := s.Messages("hooked")
	for _, text := range []string{
		"broken: exit code 3: no space left", "message: /not backed up, because of its pre hook", "lax: exit code 4",
		"hangs: not done in time: the limit is 2s",
		"forks: not done in time", `no container \"none\", only [\"app\" \"side\"]`,
	} {
		require.Contains(t, messages, text)
	}
	require.Equal(t, 6, b.Status.Errors, messages)
	log := s.log("backups", "hooked", "hooked-logs.gz")
	// The streams of Kubernetes may lose the end of much output when its command exits.
	for _, text := range []string{`stdout="pre-side\n"`, `stdout="first\nxxx`, `bytes are left out`, `stdout="forked\n"`} {
		require.Contains(t, log, text)
	}
	described := strings.Join(slices.Collect(strings.FieldsSeq(s.Must("backup", "describe", "hooked"))), " ")
	require.Contains(t, described, "HooksAttempted: 11 HooksFailed: 5")
	require.Contains(t, described, "Pre Exec Hook: Container: <first> Command: sh -c echo pre >> did On Error: Fail "+
		"Timeout: 1m0s")
}

// blockOf returns the annotations of a pod whose hooks append to the same file as the hooks of other pods.
func blockOf(name, pre string) []string {
	return []string{
		"pre.hook.backup.velero.io/command", shell("echo pre-" + name + " >> ../order" + pre),
		"pre.hook.backup.velero.io/timeout", "1h",
		"post.hook.backup.velero.io/command", shell("echo post-" + name + " >> ../order"),
	}
}

// beginBlock begins a backup of pods in one block.
func (s *hookSite) beginBlock(name string, pods ...string) {
	s.T.Helper()
	for i := range pods {
		pods[i] = s.Shop + "/" + pods[i]
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{s.Shop},
			OrderedResources: map[string]string{"pods": strings.Join(pods, ",")}},
	}))
}

// awaitOrder waits until the hooks of all pods have appended their lines.
func (s *hookSite) awaitOrder(want ...string) {
	s.T.Helper()
	s.Eventually("the hooks "+strings.Join(want, ", "), func(context.Context) (bool, error) {
		content, err := os.ReadFile(filepath.Join(s.kubelet.Dir(s.Shop, ""), "order"))
		return err == nil && slices.Equal(want, strings.Fields(string(content))), nil
	})
}

// testHooksOfABlock shows that the hooks of a block run before and after all of its pods.
func testHooksOfABlock(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("a", blockOf("a", "")...)
	s.pod("b", blockOf("b", "")...)
	s.Serve()
	s.Available()
	s.beginBlock("block", "a", "b")
	s.AwaitBackup("block", velerov1.BackupPhaseCompleted)
	s.awaitOrder("pre-a", "pre-b", "post-a", "post-b")
}

// testHooksOfACancelledBackup cancels a backup while a pre hook runs: the post hooks still run.
func testHooksOfACancelledBackup(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("a", blockOf("a", "")...)
	s.pod("b", blockOf("b", "; sleep 1000")...)
	s.pod("c", blockOf("c", "")...)
	s.Serve()
	s.Available()
	s.beginBlock("block", "a", "b", "c")
	s.awaitOrder("pre-a", "pre-b")
	s.Must("backup", "cancel", "block")
	s.AwaitBackup("block", velerov1.BackupPhaseFailed)
	s.awaitOrder("pre-a", "pre-b", "post-a", "post-b")
}

// testHooksOfAnInterruptedBackup kills the server while a pre hook runs. The next server begins the backup again, with
// its hooks.
func testHooksOfAnInterruptedBackup(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("a", blockOf("a", "; test -e ../go || sleep 1000")...)
	server := s.Serve()
	s.Available()
	s.beginBlock("block", "a")
	s.awaitOrder("pre-a")
	server.Kill()
	require.NoError(t, os.WriteFile(filepath.Join(s.kubelet.Dir(s.Shop, ""), "go"), nil, 0o600))
	s.Serve()
	b := s.AwaitBackup("block", velerov1.BackupPhaseCompleted)
	require.Equal(t, &velerov1.HookStatus{HooksAttempted: 2}, b.Status.HookStatus)
	s.awaitOrder("pre-a", "pre-a", "post-a")
}

// postRestore is the prefix of annotations with a hook of a restore.
const postRestore = "post.hook.restore.velero.io/"

// backupPods makes a backup of the shop.
func (s *hookSite) backupPods() {
	s.T.Helper()
	s.BeginBackup("pods")
	s.AwaitBackup("pods", velerov1.BackupPhaseCompleted)
}

// restorePods begins a restore of the pods into a namespace, and returns its name when the pods exist.
func (s *hookSite) restorePods(name string, hooks ...velerov1.RestoreResourceHookSpec) (namespace string) {
	s.T.Helper()
	namespace = s.Shop + "-" + name
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.RestoreSpec{
			BackupName: "pods", NamespaceMapping: map[string]string{s.Shop: namespace}, Hooks: velerov1.RestoreHooks{
				Resources: hooks,
			},
		},
	}))
	s.awaitRestorePhase(name, velerov1.RestorePhaseFinalizing)
	return namespace
}

func (s *hookSite) awaitRestorePhase(name string, phase velerov1.RestorePhase) {
	s.T.Helper()
	s.Eventually("restore "+name+" is "+string(phase), func(ctx context.Context) (bool, error) {
		var r velerov1.Restore
		err := s.Client.Get(ctx, s.Key(name), &r)
		return r.Status.Phase == phase, err
	})
}

// start makes pods Running.
func (s *hookSite) start(namespace string, ready bool, pods ...string) {
	s.T.Helper()
	for _, pod := range pods {
		require.NoError(s.T, s.kubelet.Run(s.T.Context(), namespace, pod, ready))
	}
}

// awaitDid waits until the hooks of a pod have appended lines.
func (s *hookSite) awaitDid(namespace, pod string, want ...string) {
	s.T.Helper()
	s.Eventually("the hooks of "+pod,
		func(context.Context) (bool, error) { return slices.Equal(want, s.did(namespace, pod)), nil })
}

func execHook(line string, change func(*velerov1.ExecRestoreHook)) velerov1.RestoreResourceHook {
	hook := &velerov1.ExecRestoreHook{Command: []string{"sh", "-c", "echo " + line + " >> did"}}
	if change != nil {
		change(hook)
	}
	return velerov1.RestoreResourceHook{Exec: hook}
}

// testRestoreHooks restores pods that start after other work, late, or never, or that are deleted.
func testRestoreHooks(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("web")
	s.pod("late")
	s.pod("annotated", postRestore+"command", shell("echo restored | tee -a did"), postRestore+"container", "side",
		postRestore+"wait-for-ready", "true")
	s.pod("never", postRestore+"command", "true", postRestore+"wait-timeout", "3s")
	s.pod("lost", postRestore+"command", "true", postRestore+"container", "none")
	s.pod("hangs", postRestore+"command", shell("sleep 1000"), postRestore+"exec-timeout", "2s")
	s.pod("deleted", postRestore+"command", "true")
	s.Serve()
	s.Available()
	s.backupPods()
	ns := s.restorePods("r", velerov1.RestoreResourceHookSpec{
		Name: "spec", IncludedNamespaces: []string{s.Shop + "-r"},
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In",
			Values: []string{"web", "late"}}}},
		PostHooks: []velerov1.RestoreResourceHook{execHook("one", nil),
			execHook("two-$CONTAINER", func(h *velerov1.ExecRestoreHook) { h.Container = "side" })},
	}, velerov1.RestoreResourceHookSpec{Name: "source", IncludedNamespaces: []string{s.Shop},
		PostHooks: []velerov1.RestoreResourceHook{execHook("wrong", nil)}})

	// The server runs other restores and backups meanwhile.
	s.BeginBackup("other")
	s.AwaitBackup("other", velerov1.BackupPhaseCompleted)
	s.start(ns, false, "web", "annotated", "lost", "hangs")
	s.awaitDid(ns, "web", "one", "two-side")
	require.Empty(t, s.did(ns, "annotated"), "its container is running, but not ready")
	s.start(ns, true, "annotated", "late")
	s.awaitDid(ns, "late", "one", "two-side")
	require.NoError(t, s.Client.Delete(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "deleted"}}, client.GracePeriodSeconds(0)))

	r := s.AwaitRestore("r", velerov1.RestorePhasePartiallyFailed)
	require.Equal(t, []string{"restored"}, s.did(ns, "annotated"))
	require.Equal(t, &velerov1.HookStatus{HooksAttempted: 9, HooksFailed: 4}, r.Status.HookStatus)
	require.Equal(t, 4, r.Status.Errors)
	errs := site.Gzipped[results.Results](s.Site, "restores/r/restore-r-results.gz").Errors
	messages := strings.Join(errs.Namespaces[ns], "\n")
	require.Len(t, errs.Namespaces[ns], 4, messages)
	for _, text := range []string{
		"was not run in pod " + ns + "/never: its container was not running within 3s (waitTimeout)",
		`the pod has no container "none", only ["app" "side"]`,
		"failed in pod " + ns + "/hangs: not done in time: the limit is 2s", "was not run in pod " + ns +
			"/deleted: the pod was deleted",
	} {
		require.Contains(t, messages, text)
	}
	log := s.log("restores", "r", "restore-r-logs.gz")
	require.Contains(t, log, "restore started")
	require.Contains(t, log, `stdout="restored\n"`)
	require.Equal(t, 1, strings.Count(log, `msg="hook of its annotations failed`))
	described := strings.Join(strings.Fields(s.Must("restore", "describe", "r")), " ")
	require.Contains(t, described, "HooksAttempted: 9 HooksFailed: 4")
	require.Contains(t, described, "Exec Hook: Container: side Command: sh -c echo two-$CONTAINER >> did On Error: "+
		"Continue Exec timeout: 30s Wait timeout: <none> Wait for ready: false")
}

// testHaltedHooks has a hook that fails with onError Fail: no other hook of the restore begins.
func testHaltedHooks(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("bad", postRestore+"command", shell("exit 5"), postRestore+"on-error", "Fail")
	s.pod("waits", postRestore+"command", shell("echo wrong >> did"))
	s.Serve()
	s.Available()
	s.backupPods()
	ns := s.restorePods("r")
	s.start(ns, true, "bad")
	r := s.AwaitRestore("r", velerov1.RestorePhasePartiallyFailed)
	require.Equal(t, &velerov1.HookStatus{HooksAttempted: 2, HooksFailed: 2}, r.Status.HookStatus)
	require.Empty(t, s.did(ns, "waits"))
	errs := site.Gzipped[results.Results](s.Site, "restores/r/restore-r-results.gz").Errors
	messages := strings.Join(errs.Namespaces[ns], "\n")
	require.Contains(t, messages, "/bad: exit code 5")
	require.Contains(t, messages, "/waits: a hook with onError Fail has failed before")
}

// testHooksOfAKilledServer kills the server when one hook has ended, one runs and one waits. The next server runs the
// last one, and none twice.
func testHooksOfAKilledServer(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("ended", postRestore+"command", shell("echo ended >> did"))
	s.pod("failed", postRestore+"command", shell("echo failed >> did; exit 6"))
	s.pod("runs", postRestore+"command", shell("echo runs >> did; sleep 1000"), postRestore+"exec-timeout", "1h")
	s.pod("waits", postRestore+"command", shell("echo waited >> did"))
	server := s.Serve()
	s.Available()
	s.backupPods()
	ns := s.restorePods("r")
	s.start(ns, true, "ended", "failed", "runs")
	s.awaitDid(ns, "runs", "runs")
	for _, name := range []string{"ended", "failed"} {
		s.Eventually("the mark of "+name, func(ctx context.Context) (bool, error) {
			var pod corev1.Pod
			err := s.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &pod)
			return strings.Contains(pod.Annotations["cleat.dev/restore-hooks"], "ended"), err
		})
	}
	server.Kill()
	s.start(ns, true, "waits")
	s.Serve()
	r := s.AwaitRestore("r", velerov1.RestorePhasePartiallyFailed)
	require.Equal(t, &velerov1.HookStatus{HooksAttempted: 4, HooksFailed: 2}, r.Status.HookStatus)
	for pod, line := range map[string]string{"ended": "ended", "failed": "failed", "runs": "runs", "waits": "waited"} {
		require.Equal(t, []string{line}, s.did(ns, pod), pod)
	}
	errs := site.Gzipped[results.Results](s.Site, "restores/r/restore-r-results.gz").Errors
	messages := strings.Join(errs.Namespaces[ns], "\n")
	require.Contains(t, messages, "/failed: exit code 6")
	require.Contains(t, messages, "/runs was running when the server was stopped")
}

// testCancelledHooks cancels a restore that waits only for a hook, and deletes another one.
func testCancelledHooks(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("waits", postRestore+"command", "true")
	s.Serve()
	s.Available()
	s.backupPods()
	ns := s.restorePods("cancelled")
	s.Must("restore", "cancel", "cancelled")
	r := s.AwaitRestore("cancelled", velerov1.RestorePhasePartiallyFailed)
	require.Equal(t, &velerov1.HookStatus{HooksAttempted: 1, HooksFailed: 1}, r.Status.HookStatus)
	require.Contains(t, strings.Join(site.Gzipped[results.Results](s.Site,
		"restores/cancelled/restore-cancelled-results.gz").Errors.Namespaces[ns], "\n"), "it was cancelled on request")
	s.restorePods("deleted")
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "deleted"}}))
	s.AwaitGone(&velerov1.Restore{}, "deleted")
	require.NotContains(t, s.Files("restores"), "deleted")
}

func TestAcceptRestore_WaitForHooksIsExplained(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("waits", postRestore+"command", shell("echo waited >> did"))
	server := s.Serve()
	s.Available()
	s.backupPods()
	ns := s.restorePods("r")
	what := "the hooks of pod " + ns + "/waits, for which its containers must be up"
	s.AwaitWait("restore", "r", what)
	server.AwaitLine("waiting", what, "restore="+s.Namespace+"/r")
	s.start(ns, true, "waits")
	s.AwaitRestore("r", velerov1.RestorePhaseCompleted)
	s.RequireNoWait("restore", "r")
}

func TestAcceptBackup_WaitForHooksIsExplained(t *testing.T) {
	t.Parallel()
	const pre = "pre.hook.backup.velero.io/"
	s := newHookSite(t)
	s.pod("db", pre+"command", shell("while ! test -e go; do sleep 1; done"), pre+"timeout", "1h")
	server := s.Serve()
	s.Available()
	s.BeginBackup("b")
	what := "the pre hooks of pod " + s.Shop + "/db"
	s.AwaitWait("backup", "b", what)
	server.AwaitLine("waiting", what, "backup="+s.Namespace+"/b")
	require.NoError(t, os.WriteFile(filepath.Join(s.kubelet.Dir(s.Shop, "db"), "go"), nil, 0o600))
	s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	s.RequireNoWait("backup", "b")
}
