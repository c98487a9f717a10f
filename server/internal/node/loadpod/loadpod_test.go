package loadpod

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
	"github.com/cleat-dev/cleat/server/internal/spec/podspec"
)

func order() *Order {
	return &Order{Kind: "DataUpload", Name: "n", UID: "u", Attempt: 2, Pod: "p", Volume: "v", Parent: "s", Again: true}
}

func TestOrderIsInArguments(t *testing.T) {
	t.Parallel()
	var read Order
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	read.AddFlags(flags)
	require.NoError(t, flags.Parse(order().Args()))
	require.Equal(t, order(), &read)
}

// TestPodIsLikeThatOfAgent makes the pod of an attempt from the pod of an agent, with the settings of the ConfigMap.
func TestPodIsLikeThatOfAgent(t *testing.T) {
	t.Parallel()
	limit := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	agent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"name": "node-agent", "role": "node-agent"}},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "agents", PriorityClassName: "high", Priority: new(int32(1000)),
			RestartPolicy:  corev1.RestartPolicyAlways,
			Tolerations:    []corev1.Toleration{{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists}},
			InitContainers: []corev1.Container{{Name: "plugin", Image: "plugin:latest", ImagePullPolicy: corev1.PullAlways}},
			Volumes:        []corev1.Volume{{Name: "host-pods"}},
			Containers: []corev1.Container{{Name: "sidecar"}, {
				Name: "node-agent", Image: "cleat:v1", Command: []string{"/velero"},
				Args:          []string{"--log-level=debug", "node-agent", "server", "--features=EnableCSI"},
				Resources:     corev1.ResourceRequirements{Limits: limit},
				LivenessProbe: &corev1.Probe{}, Ports: []corev1.ContainerPort{{Name: "metrics"}},
				VolumeMounts:    []corev1.VolumeMount{{Name: "host-pods", MountPath: "/host_pods"}},
				SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
			}},
		},
	}
	p := &Pods{Cluster: &run.Cluster{Namespace: "velero"}, Agent: agent, ConfigMap: "agents", Settings: &settings.Settings{
		PodResources: podspec.Resources{MemoryLimit: "1Gi"}, PodLabels: map[string]string{"team": "storage"},
		PodAnnotations: map[string]string{"a": "b"},
	}}
	before := agent.DeepCopy()
	pod, err := p.pod(order())
	require.NoError(t, err)
	require.Equal(t, before, agent)
	require.Equal(t, map[string]string{"team": "storage", "cleat.dev/load": "u", "cleat.dev/load-kind": "DataUpload",
		"velero.io/exclude-from-backup": "true"}, pod.Labels)
	require.Equal(t, map[string]string{"a": "b"}, pod.Annotations)
	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	require.Empty(t, pod.Spec.PriorityClassName)
	require.Nil(t, pod.Spec.Priority)
	require.Equal(t, agent.Spec.Tolerations, pod.Spec.Tolerations)
	require.Equal(t, corev1.PullIfNotPresent, pod.Spec.InitContainers[0].ImagePullPolicy)
	require.Equal(t, []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}},
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields)
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	require.Equal(t, append([]string{"--log-level=debug", "node-agent", "move", "--features=EnableCSI"},
		order().Args()...), c.Args)
	require.Equal(t, "1Gi", c.Resources.Limits.Memory().String())
	require.True(t, *c.SecurityContext.Privileged)
	require.Nil(t, c.LivenessProbe)
	require.Empty(t, c.Ports)
	require.Len(t, c.VolumeMounts, 2)
	require.Contains(t, p.Remedy(), "raise podResources.memoryLimit of the ConfigMap velero/agents, which is 1Gi")

	agent.Spec.Containers[1].Args = []string{"run.sh"}
	require.ErrorContains(t, p.Check(), `no container of the agent's pod has the arguments "node-agent server"`)
}

// TestPodsOfSomeLoadsDiffer has file system backups and restores privileged, and the caches of restores on a volume of
// their own if there is enough data.
func TestPodsOfSomeLoadsDiffer(t *testing.T) {
	t.Parallel()
	agent := &corev1.Pod{Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "scratch",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Args:         []string{"node-agent", "server"},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			SecurityContext: &corev1.SecurityContext{Privileged: new(false), AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}}
	p := &Pods{Cluster: &run.Cluster{}, Agent: agent, StateDir: "/scratch", Settings: &settings.Settings{
		PrivilegedFsBackup: true, CachePVC: &settings.CachePVC{StorageClass: "fast", ResidentThresholdInMB: 1},
	}}
	require.True(t, p.CanCache())
	for _, row := range []struct {
		kind              string
		bytes             int64
		privileged, cache bool
	}{
		{"PodVolumeBackup", 0, true, false}, {"DataUpload", 0, false, false}, {"PodVolumeRestore", 1 << 20, true, true},
		{"DataDownload", 1<<20 - 1, false, false}, {"DataDownload", 0, false, true},
	} {
		pod, err := p.pod(&Order{Kind: row.kind, Bytes: row.bytes})
		require.NoError(t, err)
		security := pod.Spec.Containers[0].SecurityContext
		require.Equal(t, row.privileged, *security.Privileged, row)
		require.Equal(t, row.privileged, security.AllowPrivilegeEscalation == nil, row) // the API server refuses false
		claim := pod.Spec.Volumes[0].Ephemeral
		require.Equal(t, row.cache, claim != nil, row)
		if row.cache {
			spec := claim.VolumeClaimTemplate.Spec
			require.Equal(t, "fast", *spec.StorageClassName)
			require.Equal(t, "6Gi", spec.Resources.Requests.Storage().String())
		}
	}
	p.CacheLimitMB = 10
	pod, err := p.pod(&Order{Kind: "DataDownload"})
	require.NoError(t, err)
	require.Equal(t, "1Gi", pod.Spec.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests.Storage().String())
	p.StateDir = "/elsewhere"
	require.False(t, p.CanCache())
}

func TestResultFitsIntoTerminationMessage(t *testing.T) {
	t.Parallel()
	for _, r := range []*Result{
		{ID: "u-2", SnapshotID: strings.Repeat("s", 256), Path: "/host_pods/x", Bytes: 2, NewBytes: 1,
			Warnings: slicesOf(strings.Repeat("\x01<é>", 100), 90)},
		{ID: "u-2", Error: strings.Repeat("\x01\"", 20000), Lost: true},
		{ID: "u-2", Error: "wrong password", Warnings: []string{"one"}},
	} {
		text, err := r.Encode()
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), 4096)
		read, err := parse(string(text), "u-2")
		require.NoError(t, err)
		require.Equal(t, len(r.Warnings), len(read.Warnings)+read.Omitted)
		require.Equal(t, r.Error != "", read.Error != "")
		require.Equal(t, r.SnapshotID, read.SnapshotID)
	}
}

func slicesOf(text string, n int) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

// TestStateOfPod has pods in each state. What a container writes that is not a result is never taken for one.
func TestStateOfPod(t *testing.T) {
	t.Parallel()
	ended := func(message, reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "move", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
				Message: message, Reason: reason}},
		}}}}
	}
	encoded := func(r Result) string {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		return string(text)
	}
	limited := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers = []corev1.Container{{Name: "move", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}}}}
		return pod
	}
	evicted := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted",
		Message: "The node was low"}}
	const exit, memory = "its container has ended with exit code 137", "it was killed because it needed more memory"
	const start = "failed to create containerd task: "
	for name, row := range map[string]struct {
		pod    *corev1.Pod
		lost   string
		memory bool
	}{
		"done":              {pod: ended(encoded(Result{ID: "u-2", SnapshotID: "s"}), "Completed")},
		"done, then killed": {pod: ended(encoded(Result{ID: "u-2", SnapshotID: "s"}), "OOMKilled")},
		"an error":          {pod: ended(encoded(Result{ID: "u-2", Error: "wrong password"}), "Error")},
		"lost": {ended(encoded(Result{ID: "u-2", Error: "told to end", Lost: true}), "Error"),
			"told to end", false},
		"lost for memory": {ended(encoded(Result{ID: "u-2", Error: "m", Lost: true, Memory: true}), "Error"),
			"m", true},
		"killed for memory":       {ended("", "OOMKilled"), memory, true},
		"mover killed for memory": {ended(encoded(Result{ID: "u-2", Error: "m", Lost: true}), "OOMKilled"), memory, true},
		"killed as it starts":     {ended(start+"container init was OOM-killed (memory limit too low?)", "StartError"), memory, true},
		"no memory to start":      {ended(start+"unable to set memory limit to 6291456", "StartError"), memory, true},
		"not started":             {ended(start+"no such file", "StartError"), "could not be started: " + start + "no such file", false},
		"killed":                  {ended("", "Error"), exit, false},
		"killed, with a limit": {limited(ended("", "Error")), "it was killed, perhaps because it needed more memory than its " +
			"limit", true},
		"evicted":            {evicted, "its pod has ended: Failed Evicted The node was low", false},
		"of another attempt": {ended(encoded(Result{ID: "u-1"}), ""), `is the result of "u-1", want "u-2"`, false},
		"no JSON":            {ended("panic: x", ""), "is not a result", false},
		"more than one":      {ended(encoded(Result{ID: "u-2"})+"{}", ""), "is not a result: more follows", false},
		"an unknown field":   {ended(`{"id":"u-2","phase":"x"}`, ""), `unknown field "phase"`, false},
		"negative":           {ended(encoded(Result{ID: "u-2", Bytes: -1}), ""), "negative number", false},
		"a long ID": {ended(encoded(Result{ID: "u-2", SnapshotID: strings.Repeat("s", 257)}), ""),
			"257 bytes", false},
		"lost without a reason": {ended(encoded(Result{ID: "u-2", Lost: true}), ""), "contradicts itself", false},
		"failed with a snapshot": {ended(encoded(Result{ID: "u-2", SnapshotID: "s", Error: "e"}), ""),
			"contradicts itself", false},
	} {
		state := StateOf(row.pod, order())
		require.NotNil(t, state.Result, name)
		require.Equal(t, row.lost != "", state.Result.Lost, name)
		require.Equal(t, row.memory, state.Result.Memory, name)
		require.Contains(t, state.Result.Error, row.lost, name)
	}
	require.Equal(t, State{}, StateOf(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, order()))
	pending := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: "Insufficient memory"}},
		InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "none"}}}}}}
	require.Equal(t, "pod p, which is to move the data, is not running, it is not scheduled: Insufficient memory, its "+
		"container waits: ImagePullBackOff none", StateOf(pending, order()).Waits)
}

// TestProgressIsRead has the agent read the progress in the volume of a pod. A link there leads nowhere.
func TestProgressIsRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p, pod := &Pods{HostPods: root}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("uid")}}
	read := func() [2]int64 {
		done, total, _ := p.Progress(pod)
		return [2]int64{done, total}
	}
	require.Zero(t, read())
	dir := filepath.Join(root, "uid", "volumes/kubernetes.io~empty-dir/load-progress")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.Zero(t, read())
	require.NoError(t, progress{Done: 5, Total: 9}.write(dir))
	require.Equal(t, [2]int64{5, 9}, read())
	file := filepath.Join(dir, "progress")
	require.NoError(t, os.WriteFile(file, []byte(`{"done":-1,"total":9}`), 0o600))
	require.Zero(t, read())
	require.NoError(t, os.Remove(file))
	secret := filepath.Join(root, "secret")
	require.NoError(t, os.WriteFile(secret, []byte(`{"done":1,"total":1}`), 0o600))
	require.NoError(t, os.Symlink(secret, file))
	require.Zero(t, read())
}
