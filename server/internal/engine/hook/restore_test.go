package hook

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

func restoreWith(hooks ...velerov1.RestoreResourceHookSpec) *velerov1.Restore {
	return &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r-uid"},
		Spec: velerov1.RestoreSpec{Hooks: velerov1.RestoreHooks{Resources: hooks}}}
}

func onRestore(exec ...*velerov1.ExecRestoreHook) velerov1.RestoreResourceHookSpec {
	s := velerov1.RestoreResourceHookSpec{Name: "h"}
	for _, e := range exec {
		s.PostHooks = append(s.PostHooks, velerov1.RestoreResourceHook{Exec: e})
	}
	return s
}

func TestHooksOfARestoreAreSelected(t *testing.T) {
	t.Parallel()
	const prefix = "post.hook.restore.velero.io/"
	yes := true
	exec := &velerov1.ExecRestoreHook{Command: []string{"a"}}
	full := &velerov1.ExecRestoreHook{
		Container: "side", Command: []string{"b"}, OnError: velerov1.HookErrorModeFail, WaitForReady: &yes,
		ExecTimeout: metav1.Duration{Duration: time.Minute}, WaitTimeout: metav1.Duration{Duration: time.Hour},
	}
	labelled := onRestore(exec)
	labelled.LabelSelector = metav1.SetAsLabelSelector(map[string]string{"app": "db"})
	elsewhere := onRestore(exec)
	elsewhere.ExcludedNamespaces = []string{"sh*"}
	for name, test := range map[string]struct {
		hooks       []velerov1.RestoreResourceHookSpec
		annotations map[string]string
		want        []waiting
		complaints  int
	}{
		"none":       {},
		"other pods": {hooks: []velerov1.RestoreResourceHookSpec{labelled, elsewhere}},
		"spec": {hooks: []velerov1.RestoreResourceHookSpec{onRestore(exec), onRestore(full)}, want: []waiting{
			{command: command{hook: "h", words: []string{"a"}, timeout: defaultTimeout}},
			{command: command{hook: "h", container: "side", words: []string{"b"}, stops: true, timeout: time.Minute}, index: 1,
				limit: time.Hour, ready: true},
		}},
		"annotations": {
			hooks: []velerov1.RestoreResourceHookSpec{onRestore(exec)},
			annotations: map[string]string{
				prefix + "command": `["b","c"]`, prefix + "container": "side", prefix + "on-error": "Fail", prefix +
					"exec-timeout": "1m", prefix + "wait-timeout": "1h",
				prefix + "wait-for-ready": "true",
			},
			want: []waiting{{command: command{hook: fromAnnotations, container: "side", words: []string{"b", "c"}, stops: true,
				timeout: time.Minute}, limit: time.Hour, ready: true}},
		},
		"wrong annotations": {
			annotations: map[string]string{prefix + "command": "b", prefix + "exec-timeout": "-1s", prefix + "wait-timeout": "x",
				prefix + "wait-for-ready": "yes"},
			want:       []waiting{{command: command{hook: fromAnnotations, words: []string{"b"}, timeout: defaultTimeout}}},
			complaints: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := newRestore(NewRestores(t.Context(), nil, 0), restoreWith(test.hooks...), nil)
			require.NoError(t, err)
			complaints := 0
			require.Equal(t, test.want,
				r.commands(Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}, Annotations: test.annotations},
					func(string) { complaints++ }))
			require.Equal(t, test.complaints, complaints)
		})
	}
}

// begin begins the hooks of a restore. Its pods have the restore's label.
func (s *site) begin(t *testing.T, all *Restores, restore *velerov1.Restore, pods ...*corev1.Pod) *Restore {
	t.Helper()
	r, err := all.Begin(restore, func() (*runlog.Log, error) {
		return runlog.New(runlog.Options{Dir: t.TempDir(), Tee: hclog.NewNullLogger(), Now: time.Now})
	})
	require.NoError(t, err)
	for _, pod := range pods {
		r.Add(fromCluster(pod))
	}
	r.Close()
	t.Cleanup(func() { require.NoError(t, all.Forget(restore.UID)) })
	return r
}

func (s *site) restored(t *testing.T, name string) *corev1.Pod {
	return s.pod(t, name, func(p *corev1.Pod) { p.Labels = map[string]string{velerov1.RestoreNameLabel: "r"} })
}

func await(t *testing.T, all *Restores, r *Restore) Outcome {
	t.Helper()
	var outcome Outcome
	require.Eventually(t, func() (ended bool) {
		outcome, ended = all.Outcome(r)
		return ended
	}, 5*time.Minute, 10*time.Millisecond)
	return outcome
}

// A restore with more pods than commands may run at once has one watch, and its hooks do not wait for each other.
func TestManyPodsHaveOneWatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := NewRestores(t.Context(), s.executor, 0)
	var pods []*corev1.Pod
	for i := range atOnce + 8 {
		pods = append(pods, s.restored(t, "web-"+string(rune('a'+i/26))+string(rune('a'+i%26))))
	}
	r := s.begin(t, all, restoreWith(onRestore(&velerov1.ExecRestoreHook{Command: does("1")},
		&velerov1.ExecRestoreHook{Command: does("2")})), pods...)
	for _, pod := range pods {
		require.NoError(t, s.kubelet.Run(t.Context(), s.namespace, pod.Name, false))
	}
	outcome := await(t, all, r)
	require.Equal(t, velerov1.HookStatus{HooksAttempted: 2 * len(pods)}, outcome.Status)
	require.Len(t, r.watches, 1)
	for _, pod := range pods {
		require.Equal(t, []string{"1", "2"}, s.did(t, pod.Name))
	}
}

// The next server continues the hooks that a stopped server has left.
func TestHooksGoOnUnderTheNextServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	restore := restoreWith(onRestore(&velerov1.ExecRestoreHook{Command: does("1")},
		&velerov1.ExecRestoreHook{Command: does("2"), Container: "side"}))
	restore.UID = types.UID(s.namespace) // other tests have a restore of that name
	former := NewRestores(t.Context(), s.executor, time.Minute)
	done, waits, gone := s.restored(t, "done"), s.restored(t, "waits"), s.restored(t, "gone")
	r := s.begin(t, former, restore, done, waits, gone)
	require.NoError(t, s.kubelet.Run(t.Context(), s.namespace, "done", true))
	require.Eventually(t, func() bool {
		now, err := s.executor.pods.Pods(s.namespace).Get(t.Context(), "done", metav1.GetOptions{})
		m, _ := markOf(now.Annotations, restore.UID)
		return err == nil && len(m.Ended) == 2
	}, 5*time.Minute, 10*time.Millisecond)
	for _, name := range []string{"waits", "gone"} {
		require.Eventually(t, func() bool {
			now, err := s.executor.pods.Pods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && IsMarked(now.Annotations, restore.UID)
		}, 5*time.Minute, 10*time.Millisecond)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, former.Start(ctx))
	_, ended := former.Outcome(r)
	require.False(t, ended, "what has not been run is not a failure: the next server runs it")
	status := r.Status()
	restore.Status.HookStatus = &status

	require.NoError(t, s.executor.pods.Pods(s.namespace).Delete(t.Context(), "gone",
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	next := NewRestores(t.Context(), s.executor, 0)
	resumed, err := next.Resume(t.Context(), restore, func() (*runlog.Log, error) {
		return runlog.New(runlog.Options{Dir: t.TempDir(), Tee: hclog.NewNullLogger(), Now: time.Now})
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, next.Forget(restore.UID)) })
	require.NoError(t, s.kubelet.Run(t.Context(), s.namespace, "waits", true))
	outcome := await(t, next, resumed)
	require.Equal(t, velerov1.HookStatus{HooksAttempted: 6, HooksFailed: 2}, outcome.Status)
	require.Equal(t, []string{"2 hooks: their pods were deleted, or not marked yet, when the server was stopped; it is " +
		"unknown whether they were run"}, outcome.Errors.Velero)
	for _, name := range []string{"done", "waits"} {
		require.Equal(t, []string{"1", "2"}, s.did(t, name))
	}
	_, err = os.Stat(s.kubelet.Dir(s.namespace, "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
