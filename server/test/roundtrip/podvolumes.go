package roundtrip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/world"
)

const (
	podsOfVolumes = 6
	treeImage     = "tree.invalid/tree:1"
	helperImage   = "example.io/cleat:v1"
	treeDir       = "/data"
)

// PodVolumeOptions are the options of PodVolumes in addition to Options.
type PodVolumeOptions struct {
	Options
	Cluster  *controlplane.Cluster   // with a node
	Tree     string                  // path of the program server/test/pods/testdata/tree
	Uploader velerov1.RepositoryType // whose data mover is in the plugin directory
	Restic   string                  // path of restic, for its data mover
}

// podVolumes is the scene of PodVolumes.
type podVolumes struct {
	*narrator
	PodVolumeOptions
	client    client.Client
	config    string // path of the configuration of the server and the agent
	namespace string
}

// PodVolumes runs pods that write files to their volumes. The volumes are backed up, no more than two in preparation
// at once, and again when some files have changed. Then the namespace is deleted and restored, and all files that the
// pods list are compared.
func PodVolumes(ctx context.Context, o PodVolumeOptions) (err error) {
	p := &podVolumes{narrator: &narrator{out: o.Out, start: time.Now()}, PodVolumeOptions: o, namespace: o.World.Prefix +
		"-volumes"}
	w, err := world.NewClient(o.Kubeconfig)
	if err != nil {
		return err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return err
	}
	if p.client, err = client.New(w.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := p.setUp(ctx, w); err != nil {
		return err
	}
	p.step("starting the agent of node %s: two volumes may be in preparation, and one is moved at once",
		p.Cluster.Node.Name)
	ctx, stop, err := p.startAgent(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p.step("starting the server, which stores volumes with %s", p.Uploader)
	server, err := p.Serve(ctx, w, "--config", p.config, "--item-operation-sync-frequency", "1s", "--uploader-type",
		string(p.Uploader))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := p.thereAndBack(ctx); err != nil {
		log, _ := os.ReadFile(p.log())
		err = errors.Join(err, context.Cause(ctx))
		return fmt.Errorf("%w; end of the agent's log:\n%s\nend of the server's log:\n%s", err, log[max(0, len(log)-4<<10):],
			server.Tail())
	}
	return nil
}

// setUp creates the objects of an operator, and imports the images of the pods. The image of the init container of
// restored pods has the cleat binary.
func (p *podVolumes) setUp(ctx context.Context, w *world.Client) error {
	if err := p.Install(ctx, w); err != nil {
		return err
	}
	helper := filepath.Join(p.WorkDir, "velero-restore-helper")
	if err := programs.CopyFile(p.Cleat, helper); err != nil {
		return err
	}
	err := errors.Join(pods.Import(ctx, p.Cluster, treeImage, p.Tree), pods.Import(ctx, p.Cluster, helperImage, helper))
	if err != nil {
		return err
	}
	p.config = filepath.Join(p.WorkDir, "cleat.yaml")
	text := "apiVersion: cleat.dev/v1\n"
	if p.Restic != "" {
		text += fmt.Sprintf("plugins: {config: {cleat.dev/restic: {program: %q}}}\n", p.Restic)
	}
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		return err
	}
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "node-agent"}, Data: map[string]string{
			"node-agent.json": `{"loadConcurrency": {"globalConfig": 1, "prepareQueueLength": 2}}`,
		}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "restore-helper",
			Labels: map[string]string{
				"velero.io/plugin-config": "", "velero.io/pod-volume-restore": "RestoreItemAction",
			}}, Data: map[string]string{"image": helperImage}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}},
	} {
		if err := p.client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (p *podVolumes) log() string { return filepath.Join(p.WorkDir, "agent.log") }

// startAgent starts the agent, and creates the pod by which the server detects it. The context ends with the agent.
func (p *podVolumes) startAgent(ctx context.Context) (_ context.Context, stop func(), err error) {
	if err := p.run(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "node-agent",
			Labels: map[string]string{"role": "node-agent"}}, Spec: podSpec(),
	}); err != nil {
		return nil, nil, err
	}
	log, err := os.Create(p.log())
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	agent := pods.OnNode(context.WithoutCancel(ctx), p.Cluster, p.Cleat,
		"node-agent", "server", "--kubeconfig", p.Kubeconfig, "--namespace", Namespace, "--node-name", p.Cluster.Node.Name,
		"--host-pods", "/var/lib/kubelet/pods", "--plugin-dir", p.PluginDir, "--scratch-dir", p.WorkDir, "--metrics-address",
		"0", "--profiler-address", "",
		"--config", p.config, "--node-agent-configmap", "node-agent")
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the agent: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		cancel(fmt.Errorf("the agent has ended: %w", cmp.Or(agent.Wait(), errors.New("without an error"))))
		close(ended)
	}()
	return ctx, func() {
		_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL) // and its plugins
		<-ended
	}, nil
}

func (p *podVolumes) thereAndBack(ctx context.Context) error {
	var running []*corev1.Pod
	for i := range podsOfVolumes {
		pod := p.pod(fmt.Sprintf("app-%d", i+1))
		if err := p.run(ctx, pod); err != nil {
			return err
		}
		running = append(running, pod)
	}
	p.step("%d pods run and write files of all sorts to their volumes", len(running))
	if err := p.each(ctx, running, "write"); err != nil {
		return err
	}
	if err := p.backUp(ctx, "first"); err != nil {
		return err
	}
	whole, err := p.stored()
	if err != nil {
		return err
	}
	p.step("backed up, %d bytes are in the bucket; some files change", whole)
	if err := p.each(ctx, running, "change"); err != nil {
		return err
	}
	if err := p.backUp(ctx, "second"); err != nil {
		return err
	}
	all, err := p.stored()
	if err != nil {
		return err
	}
	before, err := p.list(ctx, running)
	if err != nil {
		return err
	}
	p.step("backed up again, which took %d bytes; deleting the namespace", all-whole)
	if err := p.deleteNamespace(ctx, running); err != nil {
		return err
	}
	p.step("the pods and their volumes are gone; in a restored pod, the init container restore-wait waits for the files")
	if err := p.restore(ctx, "second"); err != nil {
		return err
	}
	for _, pod := range running {
		if err := p.awaitRunning(ctx, pod); err != nil {
			return err
		}
	}
	after, err := p.list(ctx, running)
	if err != nil {
		return err
	}
	files, lost := 0, ""
	for name, lines := range before {
		if p.Uploader == velerov1.RepositoryTypeKopia {
			lines = pods.KeptByKopia(lines)
			lost = "; of hard links and FIFOs, which kopia cannot keep, the backup warns"
		}
		if after[name] != lines {
			return fmt.Errorf("the volume of pod %s differs:\n%s\nwas\n%s", name, after[name], lines)
		}
		files += strings.Count(lines, "\n")
	}
	p.step("all %d files are as before: content, modes, owners, times and links%s", files, lost)
	return nil
}

// run creates a pod and waits until it runs.
func (p *podVolumes) run(ctx context.Context, pod *corev1.Pod) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			err := p.client.Create(ctx, pod)
			if apierrors.IsForbidden(err) { // the namespace is new and has no service account yet
				return false, nil
			}
			return err == nil, err
		})
	if err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	return p.awaitRunning(ctx, pod)
}

func (p *podVolumes) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}, Spec: podSpec()}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: treeDir}}
	return pod
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "app", Image: treeImage, Args: []string{"run"},
			ImagePullPolicy: corev1.PullNever}},
	}
}

func (p *podVolumes) awaitRunning(ctx context.Context, pod *corev1.Pod) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			err := p.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return pod.Status.Phase == corev1.PodRunning, err
		})
	if err != nil {
		return fmt.Errorf("pod %s is %s: %s: %w", pod.Name, pod.Status.Phase, pod.Status.Message, err)
	}
	return nil
}

// each runs the programs of all pods.
func (p *podVolumes) each(ctx context.Context, all []*corev1.Pod, command string) error {
	for _, pod := range all {
		if _, err := pods.Exec(ctx, p.Cluster, p.namespace, pod.Name, "/tree", command, treeDir); err != nil {
			return err
		}
	}
	return nil
}

// list returns each pod's view of its files.
func (p *podVolumes) list(ctx context.Context, all []*corev1.Pod) (map[string]string, error) {
	lines := map[string]string{}
	for _, pod := range all {
		out, err := pods.Exec(ctx, p.Cluster, p.namespace, pod.Name, "/tree", "list", treeDir)
		if err != nil {
			return nil, err
		}
		lines[pod.Name] = string(out)
	}
	return lines, nil
}

// deleteNamespace deletes the namespace, and waits until the kubelet has deleted the volumes of its pods.
func (p *podVolumes) deleteNamespace(ctx context.Context, all []*corev1.Pod) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	if err := p.client.Delete(ctx, namespace); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			if err := p.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
				return false, err
			}
			for _, pod := range all {
				if _, err := os.Stat(filepath.Join(p.Cluster.Node.Kubelet, "pods", string(pod.UID))); !errors.Is(err,
					fs.ErrNotExist) {
					return false, err
				}
			}
			return true, nil
		})
}

// stored returns the number of bytes in the bucket.
func (p *podVolumes) stored() (size int64, err error) {
	err = filepath.WalkDir(filepath.Join(p.S3.Dir, p.Bucket), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
