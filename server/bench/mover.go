package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/loads"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

const (
	moverRounds = 4
	moverAgains = 3 // backups of unchanged files in a round
	moverPlaces = 2
	moverMemory = 10 << 30 // bytes that a round writes, with a margin
)

// moverOverBare measures backups and restores of a pod's volume by PodVolumeBackups and PodVolumeRestores: through a
// node agent that is a process, its admission, the plugin host and a data mover, divided by a bare program with the
// same tree. The sides take turns, each pair of calls has a ratio, and the median counts. All files are in memory if
// they fit: the speed of a machine's disk varies more than the limits allow.
func moverOverBare(
	find func() (*moverKind, error),
) func(ctx context.Context, cleat string, report func(string, float64)) error {
	return onMoverSite(find, "", func(ctx context.Context, m *moverSite, report func(string, float64)) error {
		upload, again, download := &moverPair{}, &moverPair{}, &moverPair{}
		for round := range moverRounds {
			if err := m.round(ctx, round, upload, again, download); err != nil {
				return err
			}
		}
		for _, figure := range []struct {
			name string
			pair *moverPair
		}{{"upload", upload}, {"upload_again", again}, {"download", download}} {
			say("%s: %s", figure.name, figure.pair)
			report(figure.name+"_over_"+string(m.kind.uploader), figure.pair.ratio())
		}
		return nil
	})
}

// moverLimit is the limit of memory with which mover_rss is measured.
const moverLimit = "\nplugins:\n  config:\n    cleat.dev/kopia: {memoryLimit: 128Mi}\n"

// moverRSS reports the peak memory, in MB, of the processes of cleat.dev/kopia in a backup, one without changes, and a
// restore.
func moverRSS(ctx context.Context, cleat string, report func(string, float64)) error {
	return onMoverSite(findKopia, moverLimit, func(ctx context.Context, m *moverSite, report func(string, float64)) error {
		name := "limited"
		source, target, err := m.pair(ctx, name)
		if err != nil {
			return err
		}
		if err := growTree(m.volume(source), fullTree, 0); err != nil {
			return err
		}
		if _, err := m.repository(ctx, name, target); err != nil {
			return err
		}
		var snapshot string
		most := 0.0
		for _, call := range []struct {
			name string
			do   func() error
		}{
			{"first", func() (err error) { snapshot, err = m.backUp(ctx, source, name, "first"); return err }},
			{"again", func() (err error) { snapshot, err = m.backUp(ctx, source, name, "again"); return err }},
			{"restore", func() error { return m.restore(ctx, target, name, snapshot) }},
		} {
			used, err := m.metered(call.do)
			if err != nil {
				return err
			}
			say("%s: %.0f MB, %.1f seconds, %.1f CPU seconds", call.name, used.started, used.seconds, used.cpu)
			most = max(most, used.started)
		}
		report("mover_rss", most)
		return nil
	})(ctx, cleat, report)
}

// onMoverSite returns a benchmark that runs on a node of its own, whose agent has a data mover and a configuration.
func onMoverSite(
	find func() (*moverKind, error), config string,
	run func(ctx context.Context, m *moverSite, report func(string, float64)) error,
) func(context.Context, string, func(string, float64)) error {
	return func(ctx context.Context, cleat string, report func(string, float64)) (err error) {
		kind, err := find()
		if err != nil {
			return err
		}
		s, err := newSite(ctx, cleat)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		m := &moverSite{site: s, kind: kind}
		if m.dir, err = roomyDir(s.WorkDir, moverMemory); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
		if err := m.begin(ctx, config); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.end()) }()
		return run(ctx, m, report)
	}
}

// moverSite is a node whose kubelet is a directory, with a node agent.
type moverSite struct {
	*site
	client  client.WithWatch
	kind    *moverKind
	dir     string    // all source and target files, and the repositories
	pods    string    // the kubelet's directory of pods
	running *exec.Cmd // the node agent
	// The runs to which the loads belong.
	ofBackups  *velerov1.Backup
	ofRestores *velerov1.Restore
}

// begin starts the node agent with a configuration.
func (m *moverSite) begin(ctx context.Context, config string) (err error) {
	if m.client, _, err = m.queueClient(); err != nil {
		return err
	}
	m.pods = filepath.Join(m.dir, "pods")
	plugins, file := filepath.Join(m.dir, "movers"), filepath.Join(m.dir, "config.yaml")
	about := metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: "by-hand"}
	m.ofBackups, m.ofRestores = &velerov1.Backup{ObjectMeta: about}, &velerov1.Restore{ObjectMeta: about}
	err = errors.Join(
		os.Mkdir(m.pods, 0o750), os.Mkdir(plugins, 0o750),
		os.WriteFile(file, []byte("apiVersion: cleat.dev/v1"+config), 0o600),
		loads.Begin(ctx, m.client, m.ofBackups), loads.Begin(ctx, m.client, m.ofRestores),
		addNode(ctx, m.client, roundtrip.Namespace, moverPlaces),
	)
	if err == nil {
		err = programs.CopyFile(m.kind.plugin, filepath.Join(plugins, filepath.Base(m.kind.plugin)))
	}
	if err != nil {
		return err
	}
	m.running = m.agent(ctx, m.Kubeconfig, roundtrip.Namespace, m.pods, plugins)
	m.running.Args = append(m.running.Args, "--config", file)
	m.running.Env = append(os.Environ(), "PATH="+strings.TrimPrefix(m.kind.path+":"+os.Getenv("PATH"), ":"),
		"CLEAT_STATE_DIR="+m.state())
	return m.running.Start()
}

// metered returns what the agent and its movers use for a work.
func (m *moverSite) metered(work func() error) (usage, error) {
	meter, err := startMeter(m.running.Process.Pid)
	if err != nil {
		return usage{}, err
	}
	began := time.Now()
	err = work()
	seconds := time.Since(began).Seconds()
	used, meterErr := meter.stop()
	used.seconds = seconds
	return used, errors.Join(err, meterErr)
}

// state is the directory in which the agent keeps those of its movers.
func (m *moverSite) state() string { return filepath.Join(m.dir, "state") }

func (m *moverSite) end() error {
	err := m.running.Process.Signal(os.Interrupt)
	_ = m.running.Wait()
	return err
}

// pair creates a pod whose volume is backed up, and one to whose volume it is restored.
func (m *moverSite) pair(ctx context.Context, name string) (source, target *corev1.Pod, err error) {
	if source, err = m.pod(ctx, "source-"+name); err == nil {
		target, err = m.pod(ctx, "target-"+name)
	}
	return source, target, err
}

// pod creates a pod with the empty volume "data", in the form that an agent can use.
func (m *moverSite) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			NodeName: agentNode, AutomountServiceAccountToken: new(false),
			InitContainers: []corev1.Container{{Name: "restore-wait", Image: "wait"}},
			Containers:     []corev1.Container{{Name: "app", Image: "app"}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	if err := m.client.Create(ctx, pod); err != nil {
		return nil, err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "restore-wait", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return pod, errors.Join(os.MkdirAll(m.volume(pod), 0o750), m.client.Status().Update(ctx, pod))
}

func (m *moverSite) volume(pod *corev1.Pod) string {
	return filepath.Join(m.pods, string(pod.UID), "volumes", "kubernetes.io~empty-dir", "data")
}

// round backs up a volume on both sides, again several times, and restores it, each side with an existing repository
// of its own.
func (m *moverSite) round(ctx context.Context, round int, upload, again, download *moverPair) error {
	name := fmt.Sprint("round-", round)
	source, target, err := m.pair(ctx, name)
	if err != nil {
		return err
	}
	if err := growTree(m.volume(source), fullTree, uint64(round)); err != nil { //nolint:gosec // it is a small number
		return err
	}
	bare := m.kind.bare(filepath.Join(m.dir, "bare-"+name), m.volume(source))
	if err := bare.prepare(ctx); err != nil {
		return err
	}
	store, err := m.repository(ctx, name, target)
	if err != nil {
		return err
	}
	var snapshot string
	backUp := func(call string) func() error {
		return func() (err error) { snapshot, err = m.backUp(ctx, source, name, call); return err }
	}
	if err := upload.measure(func() error { return bare.backUp(ctx) }, backUp("first")); err != nil {
		return err
	}
	for i := range moverAgains {
		if err := again.measure(func() error { return bare.backUp(ctx) }, backUp(fmt.Sprint("again-", i))); err != nil {
			return err
		}
	}
	// The files that a side has restored are removed before the other one begins: new pages of memory are slower than
	// used ones.
	err = download.measure(
		func() error { return bare.restore(ctx) }, func() error { return m.restore(ctx, target, name, snapshot) },
		bare.target(), m.volume(target),
	)
	return errors.Join(
		err, os.RemoveAll(m.volume(source)), os.RemoveAll(m.volume(target)), os.RemoveAll(store), os.RemoveAll(bare.dir),
	)
}

// repository creates a location that is a directory, with a repository in it. It returns the directory.
func (m *moverSite) repository(ctx context.Context, name string, pod *corev1.Pod) (store string, err error) {
	store = filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Join(store, "bucket"), 0o750); err != nil {
		return "", err
	}
	return store, m.repositoryIn(ctx, name, pod, velerov1.BackupStorageLocationSpec{
		Provider: "cleat.dev/file", Config: map[string]string{"path": store},
		StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "bucket"}},
	})
}

// repositoryIn creates a location and a repository in it, by the backup of a small volume, which is empty afterwards.
func (m *moverSite) repositoryIn(
	ctx context.Context, name string, pod *corev1.Pod, spec velerov1.BackupStorageLocationSpec,
) error {
	location := &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: name}, Spec: spec,
	}
	if err := m.client.Create(ctx, location); err != nil {
		return err
	}
	file := filepath.Join(m.volume(pod), "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		return err
	}
	if _, err := m.backUp(ctx, pod, name, "small"); err != nil {
		return err
	}
	return os.Remove(file)
}

// backUp backs up the volume of a pod, and returns the snapshot.
func (m *moverSite) backUp(ctx context.Context, pod *corev1.Pod, location, name string) (string, error) {
	b := &velerov1.PodVolumeBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: location + "-" + name},
		Spec: velerov1.PodVolumeBackupSpec{
			Node: agentNode, Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Volume:                "data",
			BackupStorageLocation: location, UploaderType: m.kind.uploader,
		},
	}
	err := m.move(ctx, m.ofBackups, b, new(velerov1.PodVolumeBackupList), &b.Status.LoadStatus)
	return b.Status.SnapshotID, err
}

// restore restores a snapshot into the volume of a pod.
func (m *moverSite) restore(ctx context.Context, pod *corev1.Pod, location, snapshot string) error {
	r := &velerov1.PodVolumeRestore{
		ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: location},
		Spec: velerov1.PodVolumeRestoreSpec{
			Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Volume: "data",
			BackupStorageLocation: location, UploaderType: m.kind.uploader, SnapshotID: snapshot,
			SourceNamespace: pod.Namespace,
		},
	}
	return m.move(ctx, m.ofRestores, r, new(velerov1.PodVolumeRestoreList), &r.Status.LoadStatus)
}

// move creates a load and waits until it is Completed.
func (m *moverSite) move(
	ctx context.Context, run, load client.Object, list client.ObjectList, status *velerov1.LoadStatus,
) error {
	watch, err := m.client.Watch(ctx, list, client.InNamespace(roundtrip.Namespace))
	if err != nil {
		return err
	}
	defer watch.Stop()
	if err := loads.Sign(ctx, m.client, run, load); err != nil {
		return err
	}
	if err := m.client.Create(ctx, load); err != nil {
		return err
	}
	for event := range watch.ResultChan() {
		if o, ok := event.Object.(client.Object); !ok || o.GetName() != load.GetName() {
			continue
		}
		if err := m.client.Get(ctx, client.ObjectKeyFromObject(load), load); err != nil {
			return err
		}
		switch status.Phase {
		case velerov1.LoadPhaseCompleted:
			return nil
		case velerov1.LoadPhaseFailed, velerov1.LoadPhaseCanceled:
			return fmt.Errorf("%T %s is %s: %s", load, load.GetName(), status.Phase, status.Message)
		}
	}
	return fmt.Errorf("%T %s: the watch ended early: %w", load, load.GetName(), context.Cause(ctx))
}
