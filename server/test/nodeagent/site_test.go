package nodeagent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/loads"
	"github.com/cleat-dev/cleat/server/test/programs"
)

var (
	shared, onNode plane
	directory      string // of all tests
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "agents-")
	if err != nil {
		panic(err)
	}
	directory = dir
	shared.Options = controlplane.Options{CSISocket: filepath.Join(dir, "shared.sock")}
	onNode.Options = controlplane.Options{CSISocket: filepath.Join(dir, "node.sock"), Node: true}
	code := max(shared.Main(m), onNode.Stop())
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// patience is how long a test waits for an expected event.
const patience = 10 * time.Minute

// retry repeats a request until it succeeds.
func retry(t *testing.T, what string, request func(context.Context) error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(controlplane.Pause(began)) {
		if err = request(t.Context()); err == nil {
			return
		}
	}
	require.NoError(t, err, "not in time: "+what)
}

// site is an installation with nodes, whose agents are processes and whose kubelets are directories, unless newMachine
// makes it.
type site struct {
	t           *testing.T
	plane       *plane
	onNode      func(program string, args ...string) *exec.Cmd // makes the command of an agent
	client      client.WithWatch
	namespace   string
	nodes       []string
	root        string // has a directory of pods for each node
	plugins     string
	config      string   // file; empty for none
	configMap   string   // of the node agents; empty for none
	environment []string // of the processes, in addition to that of the test
	serverArgs  []string // of each server
	pods        map[string]*corev1.Pod
	history     *history
	owner       types.UID // of a Restore
	begun       map[bool]bool
	// The Backup (false) and the Restore (true) of loads that are created by hand.
	runs map[bool]client.Object
}

// newSite returns a site with some nodes, each with a pod with a volume.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	s := newEmptySite(t, &shared)
	s.onNode = exec.Command
	c, dir := s.client, t.TempDir()
	s.root = filepath.Join(dir, "nodes")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "store", "bucket"), 0o700))
	programs.Copy(t, "server/test/nodeagent/testdata/mover", filepath.Join(s.plugins, "mover"))
	s.create(&velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "cleat.dev/file", Config: map[string]string{"path": filepath.Join(dir, "store")},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "bucket"}},
		},
	}, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv-1", StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{
				corev1.ReadWriteOnce,
			},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	})
	for i := range nodes {
		name := fmt.Sprintf("%s-n%d", s.namespace, i+1)
		require.NoError(t, c.Create(t.Context(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"number": strconv.Itoa(i + 1)}}}))
		t.Cleanup(func() { _ = c.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}) })
		s.nodes = append(s.nodes, name)
		s.pods[name] = s.pod("app-"+strconv.Itoa(i+1), name, nil)
	}
	return s
}

// retry repeats a request until it succeeds.
func (s *site) retry(what string, request func(context.Context) error) {
	s.t.Helper()
	retry(s.t, what, request)
}

// eventually waits until a condition holds. Errors are tried again.
func (s *site) eventually(what string, holds func() (bool, error)) {
	s.t.Helper()
	var err error
	ok := false
	for began := time.Now(); time.Since(began) < patience; time.Sleep(controlplane.Pause(began)) {
		if ok, err = holds(); ok && err == nil {
			return
		}
	}
	require.Fail(s.t, "not in time: "+what, "%v", err)
}

// leave deletes the namespaces of the site, whose names have that of its own: pods that nobody needs any more take the
// time of a node from the tests that go on.
func (s *site) leave() {
	var list corev1.NamespaceList
	err := s.client.List(context.Background(), &list)
	for _, of := range list.Items {
		if strings.Contains(of.Name, s.namespace) {
			err = errors.Join(err, client.IgnoreNotFound(s.client.Delete(context.Background(), &of)))
		}
	}
	require.NoError(s.t, err)
}

// newEmptySite returns a site without locations, nodes and plugins.
func newEmptySite(t *testing.T, p *plane) *site {
	t.Helper()
	s := &site{t: t, plane: p, client: p.connect(t), plugins: filepath.Join(t.TempDir(), "plugins"),
		pods: map[string]*corev1.Pod{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agents-"}}
	require.NoError(t, s.client.Create(t.Context(), namespace))
	s.namespace = namespace.Name
	if p == &onNode {
		t.Cleanup(s.leave)
	}
	owner := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	s.create(owner)
	s.owner = owner.UID
	s.runs, s.begun = map[bool]client.Object{true: owner}, map[bool]bool{}
	s.history = s.watch()
	return s
}

// useKopia replaces the data mover of the site by that for kopia.
func (s *site) useKopia() {
	s.t.Helper()
	require.NoError(s.t, os.RemoveAll(s.plugins))
	s.addKopia()
}

func (s *site) addKopia() {
	s.t.Helper()
	mover, err := programs.BuildModule("plugins/kopia/cmd/cleat-kopia")
	require.NoError(s.t, err)
	require.NoError(s.t, os.MkdirAll(s.plugins, 0o755))
	require.NoError(s.t, programs.CopyFile(mover, filepath.Join(s.plugins, "cleat-kopia")))
}

// useRestic replaces the data mover of the site by that for restic, in which servers then store volumes.
func (s *site) useRestic() {
	s.t.Helper()
	require.NoError(s.t, os.RemoveAll(s.plugins))
	programs.Copy(s.t, "plugins/restic/cmd/cleat-restic", filepath.Join(s.plugins, "cleat-restic"))
	s.environment = append(s.environment, "PATH="+filepath.Dir(programs.Restic(s.t))+":"+os.Getenv("PATH"))
	s.serverArgs = []string{"--uploader-type", "restic"}
}

func isRestore(object client.Object) (restore, load bool) {
	switch object.(type) {
	case *velerov1.PodVolumeRestore, *velerov2alpha1.DataDownload:
		return true, true
	case *velerov1.PodVolumeBackup, *velerov2alpha1.DataUpload:
		return false, true
	}
	return false, false
}

// sign signs a load as the action that creates it, and as the agent that writes its status. It has no effect on other
// objects.
func (s *site) sign(object client.Object) {
	s.t.Helper()
	restore, load := isRestore(object)
	if load {
		require.NoError(s.t, loads.Sign(s.t.Context(), s.client, s.owning(restore), object))
	}
}

// owning returns the Backup or Restore of loads that are created by hand.
func (s *site) owning(restore bool) client.Object {
	s.t.Helper()
	known := s.runs[restore]
	if !s.begun[restore] {
		if known == nil {
			known = &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "by-hand"}}
		}
		require.NoError(s.t, loads.Begin(s.t.Context(), s.client, known))
		s.runs[restore], s.begun[restore] = known, true
	}
	return known
}

// create creates objects in the namespace of the site. Loads are signed.
func (s *site) create(objects ...client.Object) {
	s.t.Helper()
	for _, object := range objects {
		object.SetNamespace(s.namespace)
		s.sign(object)
		require.NoError(s.t, s.client.Create(s.t.Context(), object))
	}
}

// pod creates a pod on a node, in the form that an agent can use: with the volumes "data", an emptyDir, and "claimed",
// and a running init container restore-wait.
func (s *site) pod(name, node string, labels map[string]string) *corev1.Pod {
	s.t.Helper()
	pod, err := s.runPod(s.t.Context(), name, node, labels)
	require.NoError(s.t, err)
	return pod
}

func (s *site) runPod(ctx context.Context, name, node string, labels map[string]string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false),
			InitContainers: []corev1.Container{{Name: "restore-wait", Image: "wait"}},
			Containers:     []corev1.Container{{Name: "app", Image: "app"}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "claimed", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
				}},
			},
		},
	}
	for began := time.Now(); ; { // its service account may not exist yet
		err := s.client.Create(ctx, pod)
		if err == nil {
			break
		}
		if time.Since(began) > patience || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(controlplane.Pause(began))
	}
	for _, dir := range []string{"kubernetes.io~empty-dir/data", "kubernetes.io~csi/pv-1/mount"} {
		if err := os.MkdirAll(filepath.Join(s.root, node, string(pod.UID), "volumes", dir), 0o755); err != nil {
			return nil, err
		}
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "restore-wait", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return pod, s.client.Status().Update(ctx, pod)
}

// data returns the directory of the volume "data" of the pod of a node.
func (s *site) data(node string) string {
	return filepath.Join(s.root, node, string(s.pods[node].UID), "volumes/kubernetes.io~empty-dir/data")
}

// hold makes the data mover wait before the end of backups of a node; release ends the wait.
func (s *site) hold(node string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.data(node), "hold"), nil, 0o600))
}

func (s *site) release(node string) {
	s.t.Helper()
	require.NoError(s.t, os.RemoveAll(filepath.Join(s.data(node), "hold")))
}

// backup returns a PodVolumeBackup of the volume "data" of a node's pod.
func (s *site) backup(name, node string) *velerov1.PodVolumeBackup {
	pod := s.pods[node]
	return &velerov1.PodVolumeBackup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: velerov1.PodVolumeBackupSpec{
			Node: node, Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: pod.UID},
			Volume:                "data",
			BackupStorageLocation: "default", UploaderType: velerov1.RepositoryTypeRestic,
		},
	}
}

// restore returns a PodVolumeRestore of a snapshot into the volume "claimed" of a node's pod.
func (s *site) restore(name, node, snapshot string) *velerov1.PodVolumeRestore {
	pod := s.pods[node]
	return &velerov1.PodVolumeRestore{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "velero.io/v1", Kind: "Restore", Name: "r", UID: s.owner, Controller: new(true),
		}}},
		Spec: velerov1.PodVolumeRestoreSpec{
			Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: pod.UID}, Volume: "claimed",
			BackupStorageLocation: "default", UploaderType: velerov1.RepositoryTypeRestic, SnapshotID: snapshot,
			SourceNamespace: s.namespace,
		},
	}
}

func (s *site) upload(name string) *velerov2alpha1.DataUpload {
	return &velerov2alpha1.DataUpload{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: velerov2alpha1.DataUploadSpec{
			SnapshotType: velerov2alpha1.SnapshotTypeCSI, CSISnapshot: &velerov2alpha1.CSISnapshotSpec{VolumeSnapshot: "v",
				StorageClass: "fast"},
			SourcePVC: "claim", DataMover: "example.io/mover", BackupStorageLocation: "default", SourceNamespace: s.namespace,
		},
	}
}

func (s *site) download(name, snapshot string) *velerov2alpha1.DataDownload {
	return &velerov2alpha1.DataDownload{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: velerov2alpha1.DataDownloadSpec{
			TargetVolume: velerov2alpha1.TargetVolumeSpec{PVC: "claim", Namespace: s.namespace}, DataMover: "example.io/mover",
			BackupStorageLocation: "default", SourceNamespace: s.namespace, SnapshotID: snapshot,
		},
	}
}

// expose runs a pod for each DataUpload and DataDownload that is Accepted, like a component that exposes CSI volumes,
// until the test ends.
func (s *site) expose() {
	made := map[types.UID]bool{}
	s.history.observe(func(o state) {
		label := map[string]string{"DataUpload": velerov1.DataUploadLabel, "DataDownload": velerov1.DataDownloadLabel}[o.kind]
		if label == "" || o.phase != velerov1.LoadPhaseAccepted || made[o.uid] {
			return
		}
		made[o.uid] = true
		node := s.nodes[len(made)%len(s.nodes)]
		go func() { _, _ = s.runPod(s.t.Context(), o.name, node, map[string]string{label: o.name}) }()
	})
}

// configure writes the ConfigMap of the node agents.
func (s *site) configure(document string) {
	s.t.Helper()
	s.configMap = "agents"
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.configMap},
		Data: map[string]string{"any.json": document}}
	_ = s.client.Delete(s.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.configMap}})
	s.create(cm)
}

// agent is a running process of a node agent.
type agent struct {
	node string
	cmd  *exec.Cmd
	log  *programs.Output
	done chan error
}

// agents starts an agent for each node.
func (s *site) agents(args ...string) []*agent {
	s.t.Helper()
	var all []*agent
	for _, node := range s.nodes {
		all = append(all, s.agent(node, args...))
	}
	return all
}

// agent starts the agent of a node. The end of the test kills it.
func (s *site) agent(node string, args ...string) *agent {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("only root can shut a data mover off from its node")
	}
	base := []string{
		"node-agent", "server", "--kubeconfig", s.plane.Get(s.t).Kubeconfig, "--namespace", s.namespace, "--node-name", node,
		"--host-pods", filepath.Join(s.root, node), "--plugin-dir", s.plugins, "--metrics-address", "0", "--profiler-address",
		"",
		"--scratch-dir", s.t.TempDir(), "--log-level", "debug",
	}
	base = append(base, "--config", s.configFile())
	if s.configMap != "" {
		base = append(base, "--node-agent-configmap", s.configMap)
	}
	return s.start(node, append(base, args...)...)
}

// configFile writes the configuration of a process.
func (s *site) configFile() string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "cleat.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(cmp.Or(s.config, "apiVersion: cleat.dev/v1\n")), 0o600))
	return file
}

// start starts a process. The end of the test kills it.
func (s *site) start(name string, args ...string) *agent {
	s.t.Helper()
	a := &agent{node: name, log: &programs.Output{}, done: make(chan error, 1)}
	a.cmd = s.onNode(programs.Build(s.t, "server/cmd/cleat"), args...)
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	a.cmd.Env = append(os.Environ(), s.environment...)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(s.t, a.cmd.Start())
	go func() { a.done <- a.cmd.Wait() }()
	s.t.Cleanup(func() {
		a.kill()
		if s.t.Failed() {
			text := a.log.String()
			s.t.Logf("log of the agent of %s:\n%s", a.node, text[max(0, len(text)-6<<10):])
		}
	})
	return a
}

// kill sends SIGKILL to the agent and its plugins, as at the end of its container.
func (a *agent) kill() {
	_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL)
	a.done <- <-a.done
}

// state is one state of a load.
type state struct {
	version uint64
	kind    string
	name    string
	uid     types.UID
	node    string
	phase   velerov1.LoadPhase // empty if it was deleted
	message string
}

// history has all states of all loads of a site.
type history struct {
	mu        sync.Mutex
	changed   *sync.Cond
	states    []state
	last      map[string]state // by kind and name
	observers []func(state)
}

// watch records the loads from now on.
func (s *site) watch() *history {
	s.t.Helper()
	h := &history{last: map[string]state{}}
	h.changed = sync.NewCond(&h.mu)
	for kind, list := range map[string]client.ObjectList{
		"PodVolumeBackup": new(velerov1.PodVolumeBackupList), "PodVolumeRestore": new(velerov1.PodVolumeRestoreList),
		"DataUpload": new(velerov2alpha1.DataUploadList), "DataDownload": new(velerov2alpha1.DataDownloadList),
	} {
		require.NoError(s.t, s.client.List(s.t.Context(), list, client.InNamespace(s.namespace)))
		w, err := s.client.Watch(s.t.Context(), list, client.InNamespace(s.namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		require.NoError(s.t, err)
		s.t.Cleanup(w.Stop)
		go func() {
			for e := range w.ResultChan() {
				if object, ok := e.Object.(client.Object); ok && e.Type != watch.Error {
					h.add(kind, object, e.Type == watch.Deleted)
				}
			}
		}()
	}
	return h
}

func (h *history) add(kind string, object client.Object, deleted bool) {
	encoded, _ := json.Marshal(object)
	var load struct {
		Spec   struct{ Node string }
		Status struct {
			Phase   velerov1.LoadPhase
			Message string
			Node    string
		}
	}
	_ = json.Unmarshal(encoded, &load)
	o := state{
		kind: kind, name: object.GetName(), uid: object.GetUID(), phase: cmp.Or(load.Status.Phase, velerov1.LoadPhaseNew),
		node: cmp.Or(load.Spec.Node, load.Status.Node), message: load.Status.Message,
	}
	o.version, _ = strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if deleted {
		o.phase = ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, o)
	h.last[kind+"/"+o.name] = o
	for _, observer := range h.observers {
		observer(o)
	}
	h.changed.Broadcast()
}

// observe calls observer for each state from now on.
func (h *history) observe(observer func(state)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.observers = append(h.observers, observer)
}

// await waits until the last states of all loads satisfy ok.
func (s *site) await(what string, ok func(last map[string]state) bool) {
	s.t.Helper()
	h := s.history
	late := time.AfterFunc(patience, h.changed.Broadcast)
	defer late.Stop()
	deadline := time.Now().Add(patience)
	h.mu.Lock()
	defer h.mu.Unlock()
	for !ok(h.last) {
		if time.Now().After(deadline) {
			counts := map[string]int{}
			for _, o := range h.last {
				counts[o.kind+" "+string(o.phase)+" "+o.message]++
			}
			require.Fail(s.t, "not in time: "+what, "%v", counts)
		}
		h.changed.Wait()
	}
}

// awaitPhase waits for a phase of one load, and returns its state.
func (s *site) awaitPhase(key string, phase velerov1.LoadPhase) (found state) {
	s.t.Helper()
	s.await(key+" is "+string(phase), func(last map[string]state) bool {
		found = last[key]
		return found.phase == phase
	})
	return found
}

// last returns the last state of a load.
func (s *site) last(key string) state {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.history.last[key]
}

// awaitEnd waits until some loads exist and all have ended or were deleted.
func (s *site) awaitEnd(count int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d loads end", count), func(last map[string]state) bool {
		ended := 0
		for _, o := range last {
			if o.phase == "" || o.phase.Terminal() {
				ended++
			}
		}
		return ended >= count
	})
}

// ends returns the number of loads by their last phase.
func (s *site) ends() map[velerov1.LoadPhase]int {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	ends := map[velerov1.LoadPhase]int{}
	for _, o := range s.history.last {
		ends[o.phase]++
	}
	return ends
}

// states returns all states of all loads in the order in which the API server stored them.
func (s *site) states() []state {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	states := slices.Clone(s.history.states)
	slices.SortFunc(states, func(a, b state) int { return cmp.Compare(a.version, b.version) })
	return states
}

// most returns the maximum number of loads for which counts holds at the same time, over all states, by key.
func (s *site) most(counts func(state) (key string, counted bool)) map[string]int {
	in, now, most := map[types.UID]string{}, map[string]int{}, map[string]int{}
	for _, o := range s.states() {
		if key, counted := in[o.uid]; counted {
			now[key]--
			delete(in, o.uid)
		}
		if key, counted := counts(o); counted {
			in[o.uid] = key
			now[key]++
			most[key] = max(most[key], now[key])
		}
	}
	return most
}

// preparing counts the loads that are Accepted or Prepared.
func preparing(o state) (string, bool) {
	return "", o.phase == velerov1.LoadPhaseAccepted || o.phase == velerov1.LoadPhasePrepared
}

// snapshot makes a snapshot of an empty volume, for restores.
func (s *site) snapshot() string {
	s.t.Helper()
	b := s.backup("first", s.nodes[0])
	s.create(b)
	s.awaitPhase("PodVolumeBackup/first", velerov1.LoadPhaseCompleted)
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(b), b))
	return b.Status.SnapshotID
}

// change changes an object in any state.
func (s *site) change(object client.Object, change func()) {
	s.t.Helper()
	before, ok := object.DeepCopyObject().(client.Object)
	require.True(s.t, ok)
	change()
	require.NoError(s.t, client.IgnoreNotFound(s.client.Patch(s.t.Context(), object, client.MergeFrom(before))))
}
