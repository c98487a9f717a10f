package claims_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/claims"
)

// lists is a namespace with pods, and claims by "label=value".
type lists struct {
	pods   []*corev1.Pod
	claims map[string][]string
	err    error
	calls  int
}

func (l *lists) Pods(_ context.Context, _ string, visit func(*corev1.Pod)) error {
	l.calls++
	for _, pod := range l.pods {
		visit(pod)
	}
	return l.err
}

func (l *lists) ClaimsWith(_ context.Context, _, label, value string) ([]string, error) {
	return l.claims[label+"="+value], l.err
}

func podWith(name string, phase corev1.PodPhase, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Status: corev1.PodStatus{Phase: phase}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "none"}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

func labelled(pod *corev1.Pod, app string) *corev1.Pod {
	pod.Labels = map[string]string{"app": app}
	return pod
}

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func TestBlockOfAClaim(t *testing.T) {
	t.Parallel()
	pod := func(name string) framework.ResourceIdentifier {
		return framework.ResourceIdentifier{Resource: "pods", Namespace: "shop", Name: name}
	}
	for name, test := range map[string]struct {
		claim string
		label string // volumeGroupSnapshotLabelKey
		one   *metav1.LabelSelector
		or    []*metav1.LabelSelector
		lists lists
		want  []framework.ResourceIdentifier
		err   string
	}{
		"not bound": {claim: strings.Replace(full, "Bound", "Pending", 1),
			lists: lists{pods: []*corev1.Pod{podWith("web", corev1.PodRunning, "data")}}},
		"a volume only": {claim: bound("", ""), want: volume},
		"running pods": {claim: bound("", ""), lists: lists{pods: []*corev1.Pod{
			podWith("web-1", corev1.PodRunning, "data", "data"), podWith("done", corev1.PodSucceeded, "data"),
			podWith("db", corev1.PodRunning, "other"), podWith("web-0", corev1.PodRunning, "other", "data"),
		}}, want: append(volume[:1:1], pod("web-1"), pod("web-0"))},
		"an ephemeral volume": {claim: strings.ReplaceAll(bound("", ""), `"name":"data"`, `"name":"web-scratch"`),
			lists: lists{pods: []*corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
				Spec: corev1.PodSpec{Volumes: []corev1.Volume{
					{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				}},
			}}}, want: append(volume[:1:1], pod("web"))},
		"pods that the selector selects": {claim: bound("", ""), one: selecting("web"), lists: lists{pods: []*corev1.Pod{
			labelled(podWith("web", corev1.PodRunning, "data"), "web"), labelled(podWith("cron", corev1.PodRunning, "data"),
				"cron"), podWith("bare", corev1.PodRunning, "data"),
		}}, want: append(volume[:1:1], pod("web"))},
		"pods that one of several selectors selects": {claim: bound("", ""), or: []*metav1.LabelSelector{selecting("web"),
			selecting("cron")}, lists: lists{pods: []*corev1.Pod{
			labelled(podWith("web", corev1.PodRunning, "data"), "web"), labelled(podWith("cron", corev1.PodRunning, "data"),
				"cron"), podWith("bare", corev1.PodRunning, "data"),
		}}, want: append(volume[:1:1], pod("web"), pod("cron"))},
		"a selector that does not parse": {claim: bound("", ""),
			one: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}},
			err: `which pods mount a claim: label selector of the backup: "Like" is not a valid label selector operator`},
		"a volume group": {claim: bound(`"group":"db"`, ""), label: "group",
			lists: lists{claims: map[string][]string{"group=db": {"data", "log"}}},
			want: append(volume[:1:1], framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: "shop",
				Name: "log"})},
		"groups are not used": {claim: bound(`"group":"db"`, ""),
			lists: lists{claims: map[string][]string{"=": {"log"}, "group=db": {"log"}}}, want: volume},
		"in no group": {claim: bound("", ""), label: "group",
			lists: lists{claims: map[string][]string{"group=": {"log"}}}, want: volume},
		"no list": {claim: bound("", ""), lists: lists{err: errors.New("forbidden")},
			err: "which pods mount a claim: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action, err := claims.NewBlock(&test.lists)
			require.NoError(t, err)
			item := &unstructured.Unstructured{}
			require.NoError(t, item.UnmarshalJSON([]byte(test.claim)))
			backup := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: velerov1.BackupSpec{
				VolumeGroupSnapshotLabelKey: test.label, LabelSelector: test.one, OrLabelSelectors: test.or,
			}}
			for range 2 {
				output, err := action.GetRelatedItems(t.Context(), &ibav1.GetRelatedItemsInput{Item: item, Backup: backup})
				if test.err != "" {
					require.EqualError(t, err, test.err)
					return
				}
				require.NoError(t, err)
				if output == nil {
					output = &ibav1.GetRelatedItemsOutput{}
				}
				require.Equal(t, test.want, output.RelatedItems)
			}
			require.LessOrEqual(t, test.lists.calls, 1, "pods are listed once per backup and namespace")
		})
	}
}
