package nodeagent_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
)

const kopiaImage = "cleat.invalid/cleat-kopia:v1"

// loadLabel of a pod that moves a load is the UID of the load.
const loadLabel = "cleat.dev/load"

// installedAgents is what "cleat install" makes, on a node with a kubelet, with a pod whose volume has data.
type installedAgents struct {
	*machine
	app   *corev1.Pod
	agent *corev1.Pod

	mu     sync.Mutex
	movers map[string]map[types.UID]bool // the pods of each load
}

// installed returns an installation with the data mover kopia, and the ConfigMap of the node agents, with the least
// rights. The volume of the pod has some files of 1 MiB.
func installed(t *testing.T, settings string, mebibytes int) *installedAgents {
	t.Helper()
	m, in := newInstallation(t)
	mover, err := programs.BuildModule("plugins/kopia/cmd/cleat-kopia")
	require.NoError(t, err)
	image, err := productImage("cleat-kopia", programs.Build(t, "server/cmd/copy-plugins"), mover)
	require.NoError(t, err)
	require.NoError(t, pods.ImportImage(t.Context(), m.cluster, kopiaImage, image))
	i := &installedAgents{machine: m, movers: map[string]map[types.UID]bool{}}
	i.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "agents"}, Data: map[string]string{"any": settings}})
	credentials := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", in.AccessKey, in.SecretKey)
	require.NoError(t, os.WriteFile(credentials, []byte(text), 0o600))
	require.NoError(t, m.client.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.shop + "-restored"}}))
	out, err := m.cleat(
		"install", "--image", cleatImage, "--use-node-agent", "--node-agent-plugins", kopiaImage, "--uploader-type", "kopia",
		"--node-agent-configmap", "agents", "--rbac", "least", "--rbac-namespaces", m.shop+","+m.shop+"-restored",
		"--provider", "cleat.dev/s3", "--bucket", in.bucket, "--secret-file", credentials,
		"--backup-location-config", "region="+in.Region+",s3ForcePathStyle=true,s3Url="+in.Endpoint,
		"--velero-pod-cpu-request", "0", "--velero-pod-cpu-limit", "0", "--log-level", "debug", "--features", "EnableCSI",
		"--rbac-all-volumes", "--wait")
	require.NoError(t, err, out)
	i.agent = i.agentPod()

	i.app = treePod("app")
	i.app.Spec.Volumes = []corev1.Volume{{Name: "data",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	i.app.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	i.startPod(i.app)
	for n := range mebibytes {
		content := make([]byte, 1<<20)
		_, _ = rand.Read(content) // never fails
		require.NoError(t, os.WriteFile(filepath.Join(i.dir(i.app), strconv.Itoa(n)), content, 0o600))
	}
	go i.watch()
	return i
}

// dir returns the directory of the volume of a pod.
func (i *installedAgents) dir(pod *corev1.Pod) string {
	return filepath.Join(i.cluster.Node.Kubelet, "pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/data")
}

// watch records the pods that move loads.
func (i *installedAgents) watch() {
	for i.t.Context().Err() == nil {
		w, err := i.client.Watch(i.t.Context(), new(corev1.PodList), client.InNamespace(i.namespace),
			client.HasLabels{loadLabel})
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				break
			}
			i.mu.Lock()
			of := pod.Labels[loadLabel]
			if i.movers[of] == nil {
				i.movers[of] = map[types.UID]bool{}
			}
			i.movers[of][pod.UID] = true
			i.mu.Unlock()
		}
		w.Stop()
	}
}

// moving returns the pods that move loads.
func (i *installedAgents) moving() []corev1.Pod {
	var list corev1.PodList
	_ = i.client.List(i.t.Context(), &list, client.InNamespace(i.namespace), client.HasLabels{loadLabel})
	return list.Items
}

// agentPod returns the pod of the agent when it is ready.
func (i *installedAgents) agentPod() (pod *corev1.Pod) {
	i.t.Helper()
	i.retry("the agent is ready", func(ctx context.Context) error {
		var list corev1.PodList
		err := i.client.List(ctx, &list, client.InNamespace(i.namespace), client.MatchingLabels{"name": "node-agent"})
		for n := range list.Items {
			pod = &list.Items[n]
			if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				return err
			}
		}
		return cmp.Or(err, errors.New("it is not"))
	})
	return pod
}

// begin creates a backup of the volume.
func (i *installedAgents) begin(name string) {
	i.t.Helper()
	i.create(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: velerov1.BackupSpec{
		IncludedNamespaces: []string{i.shop}, DefaultVolumesToFsBackup: new(true)}})
}

// load returns the only load of a backup.
func (i *installedAgents) load(backup string) (load *velerov1.PodVolumeBackup) {
	i.t.Helper()
	i.retry("there is a load", func(ctx context.Context) error {
		var list velerov1.PodVolumeBackupList
		err := i.client.List(ctx, &list, client.InNamespace(i.namespace),
			client.MatchingLabels{velerov1.BackupNameLabel: backup})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err == nil {
			load = &list.Items[0]
		}
		return err
	})
	return load
}

// mover returns a pod that moves data, other than some, and a process of the program in it.
func (i *installedAgents) mover(others ...types.UID) (mover *corev1.Pod, process int) {
	i.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		for _, pod := range i.moving() {
			if slices.Contains(others, pod.UID) {
				continue
			}
			for _, pid := range processesOf(&pod) {
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if bytes.Contains(text, []byte("node-agent\x00move\x00")) {
					return &pod, pid
				}
			}
		}
	}
	require.Fail(i.t, "no pod moves data in time")
	return nil, 0
}

// processesOf returns the processes of a pod.
func processesOf(pod *corev1.Pod) (processes []int) {
	for _, group := range groupsOf(pod, "pids") {
		text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			processes = append(processes, pid)
		}
	}
	return processes
}

// groupsOf returns the directories of the control groups of the containers of a pod.
func groupsOf(pod *corev1.Pod, controller string) (groups []string) {
	root := filepath.Join("/sys/fs/cgroup", controller)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		root = "/sys/fs/cgroup"
	}
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() != "pod"+string(pod.UID) {
			return nil //nolint:nilerr // groups vanish
		}
		inside, _ := filepath.Glob(filepath.Join(path, "*", "cgroup.procs"))
		for _, one := range inside {
			groups = append(groups, filepath.Dir(one))
		}
		return fs.SkipAll
	})
	return groups
}

// groupOf returns the control group of a process of a pod.
func (i *installedAgents) groupOf(pod *corev1.Pod, controller string, process int) string {
	i.t.Helper()
	for _, group := range groupsOf(pod, controller) {
		text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if slices.Contains(strings.Fields(string(text)), strconv.Itoa(process)) {
			return group
		}
	}
	require.Fail(i.t, "the process has no control group")
	return ""
}

// freeze stops all processes of a container, and returns a function that continues them.
func (i *installedAgents) freeze(pod *corev1.Pod, process int) (thaw func()) {
	i.t.Helper()
	group := i.groupOf(pod, "freezer", process)
	file, frozen, thawed := filepath.Join(group, "freezer.state"), "FROZEN", "THAWED"
	if _, err := os.Stat(filepath.Join(group, "cgroup.freeze")); err == nil {
		file, frozen, thawed = filepath.Join(group, "cgroup.freeze"), "1", "0"
	}
	require.NoError(i.t, os.WriteFile(file, []byte(frozen), 0o600))
	once := sync.OnceFunc(func() { _ = os.WriteFile(file, []byte(thawed), 0o600) })
	i.t.Cleanup(once)
	return once
}

// starve gives a container so little memory that a process in it is killed when it continues.
func (i *installedAgents) starve(pod *corev1.Pod, process int) {
	i.t.Helper()
	group := i.groupOf(pod, "memory", process)
	for _, names := range [][2]string{{"memory.usage_in_bytes", "memory.limit_in_bytes"}, {"memory.current",
		"memory.max"}} {
		text, err := os.ReadFile(filepath.Join(group, names[0]))
		if err != nil {
			continue
		}
		used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		require.NoError(i.t, err)
		require.NoError(i.t, os.WriteFile(filepath.Join(group, names[1]), []byte(strconv.FormatInt(used+1<<20, 10)), 0o600))
		return
	}
	require.Fail(i.t, "the container has no control group for memory")
}

// completes waits for the end of a backup, and returns its load.
func (i *installedAgents) completes(name string) *velerov1.PodVolumeBackup {
	i.t.Helper()
	b := i.ended(name)
	load := i.load(name)
	require.Equal(i.t, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %s", load.Status.Message,
		i.results("backups", name))
	require.Equal(i.t, velerov1.LoadPhaseCompleted, load.Status.Phase)
	i.leavesNoPods()
	return load
}

// leavesNoPods waits until there is no pod that moves data.
func (i *installedAgents) leavesNoPods() {
	i.t.Helper()
	i.retry("the pods that move data are deleted", func(context.Context) error {
		if left := i.moving(); len(left) > 0 {
			return fmt.Errorf("there is %s", left[0].Name)
		}
		return nil
	})
}

// pods returns how many pods have moved a load.
func (i *installedAgents) podsOf(load client.Object) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.movers[string(load.GetUID())])
}

func attemptOf(load client.Object) string {
	return load.GetAnnotations()[velerov1.LoadAttemptAnnotation]
}

// TestAcceptVolumes_OutlivesAgent kills the agent, replaces its DaemonSet and deletes its pod while the data of a
// backup and of a restore is moved. One pod moves each of them, as the first attempt, and nothing fails. A DataUpload
// has such a pod, too.
func TestAcceptVolumes_OutlivesAgent(t *testing.T) {
	t.Parallel()
	i := installed(t, `{"podLabels": {"team": "storage"}, "podResources": {"memoryLimit": "1Gi"}}`, 8)
	i.begin("b")
	mover, process := i.mover()
	thaw := i.freeze(mover, process)
	require.Equal(t, "storage", mover.Labels["team"])
	require.Equal(t, "1Gi", mover.Spec.Containers[0].Resources.Limits.Memory().String())

	for _, pid := range processesOf(i.agent) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(text, []byte("node-agent\x00server")) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	i.retry("the agent is started again", func(ctx context.Context) error {
		err := i.client.Get(ctx, client.ObjectKeyFromObject(i.agent), i.agent)
		if err == nil && i.agent.Status.ContainerStatuses[0].RestartCount == 0 {
			err = errors.New("it is not")
		}
		return err
	})
	require.Equal(t, i.agent.UID, i.agentPod().UID)
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "node-agent"}}
	require.NoError(t, i.client.Get(t.Context(), client.ObjectKeyFromObject(set), set))
	i.change(set, func() { set.Spec.Template.Annotations["upgraded"] = "true" })
	i.retry("the agent is replaced", func(context.Context) error {
		if i.agentPod().UID == i.agent.UID {
			return errors.New("it is not")
		}
		return nil
	})
	require.NoError(t, i.client.Get(t.Context(), client.ObjectKeyFromObject(mover), mover))
	require.Equal(t, corev1.PodRunning, mover.Status.Phase)
	require.Nil(t, mover.DeletionTimestamp)
	thaw()
	load := i.completes("b")
	require.Equal(t, "1", attemptOf(load))
	require.Equal(t, 1, i.podsOf(load))
	require.GreaterOrEqual(t, load.Status.IncrementalBytes, int64(8<<20))

	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "again"}, Spec: velerov1.RestoreSpec{BackupName: "b",
		NamespaceMapping: map[string]string{i.shop: i.shop + "-restored"}}}
	i.create(r)
	mover, process = i.mover(mover.UID)
	thaw = i.freeze(mover, process)
	require.NoError(t, i.client.Delete(t.Context(), i.agentPod(), client.GracePeriodSeconds(0)))
	i.agentPod()
	thaw()
	require.Equal(t, velerov1.RestorePhaseCompleted, i.restored(r).Status.Phase, i.results("restores", r.Name))
	i.leavesNoPods()
	var restores velerov1.PodVolumeRestoreList
	require.NoError(t, i.client.List(t.Context(), &restores, client.InNamespace(i.namespace)))
	require.Len(t, restores.Items, 1)
	require.Equal(t, "1", attemptOf(&restores.Items[0]))
	require.Equal(t, 1, i.podsOf(&restores.Items[0]))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: i.shop + "-restored", Name: "app"}}
	i.running(pod)
	for n := range 8 {
		want, err := os.ReadFile(filepath.Join(i.dir(i.app), strconv.Itoa(n)))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(i.dir(pod), strconv.Itoa(n)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), n)
	}

	// A pod moves a DataUpload as well.
	i.claim("moved", corev1.PersistentVolumeFilesystem)
	db := treePod("db")
	db.Spec.Volumes = []corev1.Volume{claimed("moved")}
	db.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "claimed", MountPath: "/claimed"}}
	i.startPod(db)
	i.tree(db, "write", "/claimed")
	b := i.backUp("moved", velerov1.BackupSpec{IncludedNamespaces: []string{i.shop}, SnapshotMoveData: new(true)})
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, i.results("backups", "moved"))
	var uploads velerov2alpha1.DataUploadList
	require.NoError(t, i.client.List(t.Context(), &uploads, client.InNamespace(i.namespace)))
	require.Len(t, uploads.Items, 1)
	require.Equal(t, velerov1.LoadPhaseCompleted, uploads.Items[0].Status.Phase)
	require.Positive(t, uploads.Items[0].Status.Progress.BytesDone)
	require.Equal(t, 1, i.podsOf(&uploads.Items[0]))
	i.leavesNoPods()
	require.NotContains(t, i.logs()["node-agent"], "forbidden")
}

// TestAcceptVolumes_OutOfMemory has a data mover killed for its memory. The next attempt succeeds if it has enough.
// With a limit that is too small for the program even to start, the third one is the last, and the load says what to
// raise.
func TestAcceptVolumes_OutOfMemory(t *testing.T) {
	t.Parallel()
	i := installed(t, `{"podResources": {"memoryLimit": "512Mi"}}`, 1)
	i.begin("once")
	mover, process := i.mover()
	thaw := i.freeze(mover, process)
	i.starve(mover, process)
	thaw()
	load := i.completes("once")
	require.Equal(t, "2", attemptOf(load))
	require.Equal(t, 2, i.podsOf(load))

	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "agents"}}
	require.NoError(t, i.client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm))
	i.change(cm, func() { cm.Data["any"] = `{"podResources": {"memoryLimit": "6Mi"}}` })
	require.NoError(t, i.client.Delete(t.Context(), i.agentPod()))
	i.agentPod()
	i.begin("always")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, i.ended("always").Status.Phase)
	load = i.load("always")
	require.Equal(t, velerov1.LoadPhaseFailed, load.Status.Phase)
	require.Regexp(t, "^attempt 3 of 3 was the last; it has ended before all data was moved: it was killed(, perhaps)? "+
		"because it needed more memory than its limit; raise podResources.memoryLimit of the ConfigMap "+i.namespace+
		"/agents, which is 6Mi, and restart the node agents$", load.Status.Message)
	require.Contains(t, i.results("backups", "always"), load.Status.Message)
	require.Equal(t, 3, i.podsOf(load))
	i.leavesNoPods()
}

// TestAcceptVolumes_Drained evicts the pod that moves a load, as a drain does, after a part of the data was stored. The
// next attempt stores the rest only. Another load is canceled while a pod moves it.
func TestAcceptVolumes_Drained(t *testing.T) {
	t.Parallel()
	const mebibytes = 160
	i := installed(t, `{}`, mebibytes)
	before := i.stored()
	i.begin("b")
	mover, process := i.mover()
	var thaw func()
	for began := time.Now(); thaw == nil; time.Sleep(5 * time.Millisecond) {
		require.Less(t, time.Since(began), patience, "no data is stored in time")
		if i.stored()-before > mebibytes<<20/4 {
			thaw = i.freeze(mover, process)
		}
	}
	part := i.stored() - before
	require.Less(t, part, int64(mebibytes<<20*9/10), "the data must not be stored before the drain")
	require.NoError(t, i.client.SubResource("eviction").Create(t.Context(), mover, &policyv1.Eviction{}))
	thaw()
	load := i.completes("b")
	require.Equal(t, "2", attemptOf(load))
	require.Equal(t, 2, i.podsOf(load))
	t.Logf("%d of %d MiB were stored before the drain, the second attempt stored %d MiB", part>>20, mebibytes,
		load.Status.IncrementalBytes>>20)
	require.Less(t, load.Status.IncrementalBytes, int64(mebibytes<<20)-part/2)
	require.Less(t, i.stored()-before, int64(mebibytes<<20*12/10), "nothing is stored twice")

	// A load that is canceled ends its pod, and has no other one.
	i.begin("canceled")
	mover, process = i.mover(mover.UID)
	thaw = i.freeze(mover, process)
	load = i.load("canceled")
	i.change(load, func() { load.Spec.Cancel = true })
	i.retry("the pod is stopped", func(ctx context.Context) error {
		err := i.client.Get(ctx, client.ObjectKeyFromObject(mover), mover)
		if err == nil && mover.DeletionTimestamp == nil {
			err = errors.New("it is not")
		}
		return client.IgnoreNotFound(err)
	})
	thaw()
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, i.ended("canceled").Status.Phase)
	load = i.load("canceled")
	require.Equal(t, velerov1.LoadPhaseCanceled, load.Status.Phase, load.Status.Message)
	require.Equal(t, 1, i.podsOf(load))
	i.leavesNoPods()
}
