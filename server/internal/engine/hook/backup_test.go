package hook

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// resolve resolves the names of pods and deployments.
func resolve(name string) (schema.GroupResource, bool) {
	switch name {
	case "po", "pod", "pods":
		return schema.GroupResource{Resource: "pods"}, true
	case "deploy":
		return schema.GroupResource{Group: "apps", Resource: "deployments"}, true
	}
	return schema.GroupResource{}, false
}

func execs(of ...*velerov1.ExecHook) []velerov1.BackupResourceHook {
	var all []velerov1.BackupResourceHook
	for _, e := range of {
		all = append(all, velerov1.BackupResourceHook{Exec: e})
	}
	return all
}

func TestHooksOfABackupAreSelected(t *testing.T) {
	t.Parallel()
	one := func(change func(*velerov1.BackupResourceHookSpec)) []velerov1.BackupResourceHookSpec {
		s := velerov1.BackupResourceHookSpec{
			Name: "h", PreHooks: execs(&velerov1.ExecHook{Command: []string{"pre"}}),
			PostHooks: execs(&velerov1.ExecHook{Container: "side", Command: []string{"post"},
				OnError: velerov1.HookErrorModeContinue, Timeout: metav1.Duration{Duration: time.Hour}}),
		}
		if change != nil {
			change(&s)
		}
		return []velerov1.BackupResourceHookSpec{s}
	}
	pre := command{hook: "h", words: []string{"pre"}, stops: true, timeout: defaultTimeout}
	post := command{hook: "h", container: "side", words: []string{"post"}, timeout: time.Hour}
	for name, test := range map[string]struct {
		spec        []velerov1.BackupResourceHookSpec
		annotations map[string]string
		pre, post   []command
		complaints  int
	}{
		"none": {},
		"spec": {spec: one(nil), pre: []command{pre}, post: []command{post}},
		"namespace": {spec: one(func(s *velerov1.BackupResourceHookSpec) { s.IncludedNamespaces = []string{"sh*"} }),
			pre: []command{pre}, post: []command{post}},
		"another namespace": {spec: one(
			func(s *velerov1.BackupResourceHookSpec) { s.IncludedNamespaces = []string{"other"} },
		)},
		"an excluded one": {spec: one(
			func(s *velerov1.BackupResourceHookSpec) { s.ExcludedNamespaces = []string{"shop"} },
		)},
		"pods": {spec: one(func(s *velerov1.BackupResourceHookSpec) { s.IncludedResources = []string{"po"} }),
			pre: []command{pre}, post: []command{post}},
		"another resource": {spec: one(
			func(s *velerov1.BackupResourceHookSpec) { s.IncludedResources = []string{"deploy"} },
		)},
		"all but pods": {spec: one(func(s *velerov1.BackupResourceHookSpec) { s.ExcludedResources = []string{"pod"} })},
		"labels": {spec: one(func(s *velerov1.BackupResourceHookSpec) {
			s.LabelSelector = metav1.SetAsLabelSelector(map[string]string{"app": "web"})
		}), pre: []command{pre}, post: []command{post}},
		"other labels": {spec: one(func(s *velerov1.BackupResourceHookSpec) {
			s.LabelSelector = metav1.SetAsLabelSelector(map[string]string{"app": "db"})
		})},
		"two of them in order": {spec: append(one(nil), one(nil)...), pre: []command{pre, pre}, post: []command{post, post}},
		"annotations of one moment": {
			spec: one(nil), annotations: map[string]string{"pre.hook.backup.velero.io/command": `["a","b c"]`,
				"pre.hook.backup.velero.io/container": "side"},
			pre: []command{{hook: fromAnnotations, container: "side", words: []string{"a", "b c"}, stops: true,
				timeout: defaultTimeout}}, post: []command{post},
		},
		"annotations without a moment": {
			annotations: map[string]string{"hook.backup.velero.io/command": "a b", "hook.backup.velero.io/on-error": "Continue",
				"hook.backup.velero.io/timeout": "1m"},
			pre: []command{{hook: fromAnnotations, words: []string{"a b"}, timeout: time.Minute}},
		},
		"wrong annotations": {
			annotations: map[string]string{"post.hook.backup.velero.io/command": "[a",
				"post.hook.backup.velero.io/on-error": "Retry", "post.hook.backup.velero.io/timeout": "soon"},
			post:       []command{{hook: fromAnnotations, words: []string{"[a"}, stops: true, timeout: defaultTimeout}},
			complaints: 2,
		},
		"annotations without a command": {annotations: map[string]string{"pre.hook.backup.velero.io/container": "side"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := NewBackup(&velerov1.BackupHooks{Resources: test.spec}, nil, resolve)
			require.NoError(t, err)
			complaints := 0
			complain := func(string) { complaints++ }
			labels := map[string]string{"app": "web"}
			require.Equal(t, test.pre, b.commands(Pre, "shop", labels, test.annotations, complain))
			require.Equal(t, test.post, b.commands(Post, "shop", labels, test.annotations, complain))
			require.Equal(t, test.complaints, complaints)
			require.Equal(t, len(test.pre)+len(test.post) > 0, b.Concern("shop", labels, test.annotations))
		})
	}
	_, err := NewBackup(&velerov1.BackupHooks{Resources: one(func(s *velerov1.BackupResourceHookSpec) {
		s.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: "Near"},
		}}
	})}, nil, resolve)
	require.ErrorContains(t, err, "hook h: labelSelector")
}

func TestHooksOfABackupRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	fails := &velerov1.ExecHook{Command: []string{"sh", "-c", "echo no >&2; exit 2"}}
	goesOn := &velerov1.ExecHook{Command: fails.Command, OnError: velerov1.HookErrorModeContinue}
	for name, test := range map[string]struct {
		hooks    []*velerov1.ExecHook
		change   func(*corev1.Pod)
		did      []string
		failures []string
		stopped  bool
		status   velerov1.HookStatus
	}{
		"in order": {
			hooks:  []*velerov1.ExecHook{{Command: does("1")}, {Command: does("2-$CONTAINER"), Container: "side"}},
			did:    []string{"1", "2-side"},
			status: velerov1.HookStatus{HooksAttempted: 2},
		},
		"a failure with onError Fail": {
			hooks: []*velerov1.ExecHook{{Command: does("1")}, fails, {Command: does("3")}}, did: []string{"1"}, stopped: true,
			failures: []string{"exit code 2: no"}, status: velerov1.HookStatus{HooksAttempted: 3, HooksFailed: 1},
		},
		"a failure with onError Continue": {
			hooks: []*velerov1.ExecHook{goesOn, {Command: does("2")}}, did: []string{"2"},
			failures: []string{"pre hook h failed in pod "},
			status:   velerov1.HookStatus{HooksAttempted: 2, HooksFailed: 1},
		},
		"a container that does not exist": {
			hooks: []*velerov1.ExecHook{{Command: does("1"), Container: "none"}}, stopped: true,
			failures: []string{`the pod has no container "none", only ["app" "side"]`}, status: velerov1.HookStatus{
				HooksAttempted: 1, HooksFailed: 1,
			},
		},
		"a time-out": {
			hooks: []*velerov1.ExecHook{{Command: []string{"sleep", "1000"},
				Timeout: metav1.Duration{Duration: time.Second}}},
			stopped:  true,
			failures: []string{"not done in time"}, status: velerov1.HookStatus{HooksAttempted: 1, HooksFailed: 1},
		},
		"a completed pod": {
			hooks:  []*velerov1.ExecHook{{Command: does("1")}},
			change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
			status: velerov1.HookStatus{HooksAttempted: 1},
		},
		"a pod that was deleted": {
			hooks: []*velerov1.ExecHook{{Command: does("1")}}, change: func(p *corev1.Pod) { p.Name = "deleted" }, stopped: true,
			failures: []string{`pods "deleted" not found`}, status: velerov1.HookStatus{HooksAttempted: 1, HooksFailed: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := s.running(t, "", func(p *corev1.Pod) { p.GenerateName = "web-" })
			pod := made.DeepCopy()
			if test.change != nil {
				test.change(pod)
			}
			b, err := NewBackup(&velerov1.BackupHooks{
				Resources: []velerov1.BackupResourceHookSpec{{Name: "h", PreHooks: execs(test.hooks...)}},
			}, s.executor, resolve)
			require.NoError(t, err)
			failures, stopped := b.Run(t.Context(), Pre, pod, hclog.NewNullLogger())
			require.Len(t, failures, len(test.failures))
			for i, want := range test.failures {
				require.ErrorContains(t, failures[i], want)
			}
			require.Equal(t, test.stopped, stopped)
			require.Equal(t, test.did, s.did(t, made.Name))
			require.Equal(t, test.status, b.Status())
		})
	}
}
