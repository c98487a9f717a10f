package rehearsals

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
)

func TestNamespacesOfAResourceList(t *testing.T) {
	t.Parallel()
	found, err := readNamespaces(strings.NewReader(`{"v1/Namespace":["b","empty"],"v1/Pod":["b/p","a/p"],
		"rbac.authorization.k8s.io/v1/ClusterRole":["system:x"],"v1/PersistentVolume":["pv"]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "empty"}, found)
	for _, wrong := range []string{`{"v1/Pod":["a/b"`, `{"v1/Pod" 1}`, `nope`} {
		_, err := readNamespaces(strings.NewReader(wrong))
		require.ErrorIs(t, err, store.ErrDamaged, wrong)
	}
}

// FuzzReadNamespaces reads any list of items.
func FuzzReadNamespaces(f *testing.F) {
	f.Add(`{"v1/Namespace":["b"],"v1/Pod":["b/p"]}`)
	f.Add(`{"v1/Pod":{"a/b":["c/d"]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		found, err := readNamespaces(strings.NewReader(text))
		if err == nil {
			require.LessOrEqual(t, len(found), len(text))
		}
	})
}

// TestOnlyVouchedBackupsAreRehearsed chooses the newest backup that a server of this cluster has made.
func TestOnlyVouchedBackupsAreRehearsed(t *testing.T) {
	t.Parallel()
	v := Vouched{Ring: func(context.Context) trust.Ring { return nil }}
	backup := func(name string, annotations map[string]string) velerov1.Backup {
		return velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	const own = "velero-backup.json=a:1"
	made := map[string]string{velerov1.FilesAnnotation: own}
	for name, tt := range map[string]struct {
		backups        []velerov1.Backup
		found, refused string
	}{
		"none":           {},
		"own":            {[]velerov1.Backup{backup("a", made), backup("b", made)}, "a", ""},
		"brought":        {[]velerov1.Backup{backup("a", nil)}, "", "a"},
		"brought, newer": {[]velerov1.Backup{backup("a", nil), backup("b", nil), backup("c", made)}, "c", "a"},
		"brought, older": {[]velerov1.Backup{backup("a", made), backup("b", nil)}, "a", ""},
		"unfinished":     {[]velerov1.Backup{backup("a", map[string]string{velerov1.FilesAnnotation: "b=a:1"})}, "", "a"},
	} {
		found, refused, err := v.newest(t.Context(), tt.backups)
		require.NoError(t, err)
		if found == nil {
			found = &velerov1.Backup{}
		}
		if refused == nil {
			refused = &velerov1.Backup{}
		}
		require.Equal(t, tt.found, found.Name, name)
		require.Equal(t, tt.refused, refused.Name, name)
	}
}

func TestNamesOfRehearsals(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, "b-rehearsal-20260102030405", NameAt("b", at))
	long := NameAt(strings.Repeat("b", 253), at)
	require.Len(t, long, 253)
	require.NotEqual(t, long, NameAt(strings.Repeat("b", 252)+"c", at))
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	r := New("velero", "r", "b", 0)
	timeout, err := timeoutOf(r, time.Minute)
	require.NoError(t, err)
	require.Equal(t, time.Minute, timeout)
	timeout, err = timeoutOf(New("velero", "r", "b", time.Hour), time.Minute)
	require.NoError(t, err)
	require.Equal(t, time.Hour, timeout)
	for _, wrong := range []string{"x", "-1s", "0s"} {
		r.Annotations[velerov1.RehearsalTimeoutAnnotation] = wrong
		_, err = timeoutOf(r, time.Minute)
		require.ErrorContains(t, err, "want a duration such as 10m", wrong)
	}
}

func TestProblemsOfPods(t *testing.T) {
	t.Parallel()
	condition := func(kind corev1.PodConditionType, is corev1.ConditionStatus, message string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: kind, Status: is, Message: message}}
	}
	container := func(state corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "c", State: state}}
	}
	tests := []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{name: "new", want: "it is Pending"},
		{name: "ready", status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: condition(corev1.PodReady,
			corev1.ConditionTrue, "")}},
		{name: "completed", status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		{name: "failed", status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: "it has failed: Evicted"},
		{name: "no node", status: corev1.PodStatus{Conditions: condition(corev1.PodScheduled, corev1.ConditionFalse,
			"0/1 nodes are available: 1 Insufficient cpu.")}, want: "it is not scheduled: 0/1 nodes are available"},
		{name: "no image", status: corev1.PodStatus{ContainerStatuses: container(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}})},
			want: "container c: ErrImagePull: not found"},
		{name: "ended", status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: container(corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}})}, want: "ended with exit code 3"},
		{name: "not ready", status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: container(corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{}})}, want: "container c is running and not ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := PodProblem(&corev1.Pod{Status: tt.status})
			require.Contains(t, got, tt.want)
			require.Equal(t, tt.want == "", got == "")
		})
	}
}

func TestItemsAreCompared(t *testing.T) {
	t.Parallel()
	made, kinds := new(rehearsal.Report), map[string]*rehearsal.Kind{}
	s := state{Namespaces: map[string]string{"shop": "rehearsal-1-1"}}
	for _, one := range []outcome.Item{
		{Resource: "pods", From: "shop", Namespace: "rehearsal-1-1", Name: "a", Outcome: outcome.Created},
		{Resource: "pods", From: "shop", Name: "b", Outcome: outcome.Created, Reason: "rehearsed on any node"},
		{Resource: "pods", From: "shop", Name: "c", Outcome: outcome.Skipped, Reason: "not rehearsed: it is privileged"},
		{Resource: "pods", From: "shop", Name: "d", Outcome: outcome.Refused, Reason: "exceeded quota"},
		{Resource: "pods", From: "shop", Name: "e", Outcome: outcome.Created, Incomplete: true, Reason: "its data is lost"},
		{Resource: "serviceaccounts", From: "shop", Name: "default", Outcome: outcome.Skipped},
		{Resource: "clusterroles", Name: "x", Outcome: outcome.Conflict, Reason: "it differs"},
		{Resource: "namespaces", Name: "rehearsal-1-1", Outcome: outcome.Failed},
		{Resource: "events", Items: 7, Outcome: outcome.LeftOut},
	} {
		add(made, kinds, one, s)
	}
	require.Equal(t, &rehearsal.Kind{Resource: "pods", InBackup: 5, Restored: 3, NotTried: 1, Missing: 1}, kinds["pods"])
	require.Equal(t, 1, kinds["serviceaccounts"].Existing)
	require.Equal(t, 1, made.Changed.Count)
	require.Equal(t, 2, made.NotTried.Count)
	require.Equal(t, 3, made.Missing.Count)
	require.Equal(t, "namespaces/shop", made.Missing.Items[2].String())
	require.NotContains(t, kinds, "events")

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.Admitted, s.Prepared, s.Restored, s.Settled = at, at.Add(time.Second), at.Add(11*time.Second), at.Add(31*time.Second)
	made.Times = timesOf(s, at, at)
	require.InDelta(t, 30, made.Times.Estimate, 0.01)
	conclude(made, s)
	require.Equal(t, rehearsal.Failed, made.Result)
	require.Equal(t, "3 items could not be restored", made.Text)
	for result, s := range map[rehearsal.Result]state{
		rehearsal.NotRun: {Problems: []string{"x"}}, rehearsal.Cancelled: {Cancelled: true, Prepared: at},
		rehearsal.Passed: {Prepared: at},
	} {
		made := &rehearsal.Report{Problems: s.Problems}
		conclude(made, s)
		require.Equal(t, result, made.Result)
		require.NotEmpty(t, made.Text)
	}
}

func TestStatesOfRehearsals(t *testing.T) {
	t.Parallel()
	_, err := stateOf(&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		velerov1.RehearsalStateAnnotation: "{"}}})
	require.ErrorContains(t, err, "is not the state of a rehearsal")
}

// FuzzStateOf reads any annotation with a state.
func FuzzStateOf(f *testing.F) {
	f.Add(`{"namespaces":{"a":"b","c":"d"},"restored":"2026-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := stateOf(&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			velerov1.RehearsalStateAnnotation: text}}})
		if err == nil {
			require.Len(t, s.sources(), len(s.Namespaces))
		}
	})
}
