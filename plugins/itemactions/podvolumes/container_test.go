package podvolumes

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestInitContainerRunsAsTheUserOfTheVolumes(t *testing.T) {
	t.Parallel()
	const safe = `"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}`
	for name, row := range map[string]struct {
		spec     string
		settings map[string]string
		want     string
	}{
		"nobody is named": {spec: `{"containers":[{"name":"a"}]}`, want: `{` + safe +
			`,"runAsUser":1000,"runAsNonRoot":true}`},
		"the user of the pod":       {spec: `{"securityContext":{"runAsUser":4242,"runAsGroup":7,"fsGroup":8},"containers":[{"name":"a"}]}`, want: `{` + safe + `,"runAsUser":4242,"runAsNonRoot":true}`},
		"the seccomp profile of it": {spec: `{"securityContext":{"seccompProfile":{"type":"Unconfined"}},"containers":[{"name":"a"}]}`, want: `{"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"Unconfined"},"runAsUser":1000,"runAsNonRoot":true}`},
		"root": {spec: `{"securityContext":{"runAsUser":0},"containers":[{"name":"a"}]}`,
			want: `{"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"},"runAsUser":0}`},
		"the container wins":      {spec: `{"securityContext":{"runAsUser":4242},"containers":[{"name":"a","securityContext":{"runAsUser":5,"runAsGroup":6}}]}`, want: `{"readOnlyRootFilesystem":true,"runAsUser":5,"runAsGroup":6,"runAsNonRoot":true}`},
		"half of it is the pod's": {spec: `{"securityContext":{"runAsUser":4242},"containers":[{"name":"a","securityContext":{"readOnlyRootFilesystem":true}}]}`, want: `{"readOnlyRootFilesystem":true,"runAsUser":4242,"runAsNonRoot":true}`},
		"not root, of an image": {spec: `{"containers":[{"name":"a","securityContext":{"runAsNonRoot":true}}]}`,
			want: `{"readOnlyRootFilesystem":true,"runAsUser":1000,"runAsNonRoot":true}`},
		"a sidecar is first":         {spec: `{"containers":[{"name":"proxy","securityContext":{"runAsUser":1337}},{"name":"a","securityContext":{"runAsUser":5},"volumeMounts":[{"name":"data"}]}]}`, want: `{"readOnlyRootFilesystem":true,"runAsUser":5,"runAsNonRoot":true}`},
		"a sidecar is first, no own": {spec: `{"securityContext":{"runAsUser":4242},"containers":[{"name":"proxy","securityContext":{"runAsUser":1337}},{"name":"a","volumeMounts":[{"name":"data"}]}]}`, want: `{` + safe + `,"runAsUser":4242,"runAsNonRoot":true}`},
		"settings": {spec: `{"securityContext":{"runAsUser":4242},"containers":[{"name":"a"}]}`,
			settings: map[string]string{"secCtxRunAsUser": "9"}, want: `{"runAsUser":9}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := new(corev1.Pod)
			require.NoError(t, json.Unmarshal([]byte(row.spec), &pod.Spec))
			got, err := securityFor(row.settings, pod, []string{"data"})
			require.NoError(t, err)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, row.want, string(text))
		})
	}
}

func TestPodWaitsOnceAndDoesNotWriteToWhatItReads(t *testing.T) {
	t.Parallel()
	const own = `{"spec":{"containers":[{"name":"a","volumeMounts":[{"name":"data","mountPath":"/d"},{"name":"nfs","mountPath":"/n"}]}],"initContainers":[{"name":"i","volumeMounts":[{"name":"data","mountPath":"/d"}]}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data","readOnly":true}},{"name":"nfs","nfs":{"path":"/","readOnly":true}}]}}`
	var pod map[string]any
	require.NoError(t, json.Unmarshal([]byte(own), &pod))
	require.NoError(t, makeWritable(pod, []string{"data"}))
	const writable = `{"spec":{"containers":[{"name":"a","volumeMounts":[{"name":"data","mountPath":"/d","readOnly":true},{"name":"nfs","mountPath":"/n"}]}],"initContainers":[{"name":"i","volumeMounts":[{"name":"data","mountPath":"/d","readOnly":true}]}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}},{"name":"nfs","nfs":{"path":"/","readOnly":true}}]}}`
	shown := func() string {
		text, err := json.Marshal(pod)
		require.NoError(t, err)
		return string(text)
	}
	require.JSONEq(t, writable, shown())
	require.NoError(t, addWaiting(pod, &corev1.Container{Name: waitContainer}))
	require.Contains(t, shown(), `"initContainers":[{"name":"restore-wait","resources":{}},{"name":"i"`)
	require.Contains(t, shown(), `{"emptyDir":{},"name":"cleat-restore-wait"}`)
	removed, err := removeWaiting(pod)
	require.NoError(t, err)
	require.True(t, removed)
	require.JSONEq(t, writable, shown())
	removed, err = removeWaiting(pod)
	require.NoError(t, err)
	require.False(t, removed)
}

func TestOperationEndsWhenThePodHasSeenItsVolumes(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) metav1.Time { return metav1.Time{Time: now.Add(after)} }
	wait := func(s corev1.ContainerStatus) corev1.PodStatus {
		s.Name = waitContainer
		return corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{s}}
	}
	ended := func(code int32, started time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: at(started),
			Reason: "Error", Message: "permission denied\n"}}
	}
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
		Message: "back-off 10s"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, row := range map[string]struct {
		status        corev1.PodStatus
		after         time.Duration // since the end of the loads
		waits, failed string        // parts of it; both empty if the pod has started
	}{
		"it runs":                 {status: corev1.PodStatus{Phase: corev1.PodRunning}},
		"the next init container": {status: wait(corev1.ContainerStatus{State: ended(0, -time.Minute)})},
		"not seen yet": {status: wait(corev1.ContainerStatus{State: runs}), after: time.Second,
			waits: "init container restore-wait runs"},
		"never seen": {status: wait(corev1.ContainerStatus{State: runs}), after: startLimit + time.Second,
			failed: "init container restore-wait runs"},
		"failed before the end": {status: wait(corev1.ContainerStatus{State: backOff,
			LastTerminationState: ended(1, 0)}), after: time.Second, waits: "CrashLoopBackOff"},
		"failed after the end": {status: wait(corev1.ContainerStatus{State: backOff,
			LastTerminationState: ended(1, time.Second)}), after: time.Second,
			failed: "it has ended with status 1: Error: permission denied"},
		"fails now": {status: wait(corev1.ContainerStatus{State: ended(1, time.Second)}),
			after: 2 * time.Second, failed: "does not start"},
		"no image": {status: wait(
			corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}},
		), waits: "restore-wait waits: ErrImagePull"},
		"no container starts again": {status: corev1.PodStatus{Phase: corev1.PodFailed},
			failed: "has failed before it used it"},
		"nothing is known of the pod": {waits: "it is Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loads := []load{{status: &velerov1.LoadStatus{CompletionTimestamp: new(at(-time.Hour))}},
				{status: &velerov1.LoadStatus{CompletionTimestamp: new(at(0))}}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: row.status}
			started, waits, failed := hasStarted(pod, loads, now.Add(row.after))
			require.Equal(t, row.waits == "" && row.failed == "", started)
			for text, part := range map[string]string{waits: row.waits, failed: row.failed} {
				require.Contains(t, text, part)
				require.Equal(t, part == "", text == "")
			}
		})
	}
}
