package nodeagent_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// volumes is a site with the volumes of a CSI driver, in a namespace shop, and pods that run in the form that agents
// can use.
type volumeSite struct {
	*site
	rest  *rest.Config
	shop  string
	store string // directory of the bucket
}

func newVolumeSite(t *testing.T, nodes int) *volumeSite {
	t.Helper()
	v := &volumeSite{site: newSite(t, nodes)}
	var err error
	v.rest, err = clientcmd.BuildConfigFromFlags("", shared.Get(t).Kubeconfig)
	require.NoError(t, err)
	v.rest.QPS = -1
	shared.serveDisks(t, v.client)
	v.shop = v.namespace + "-shop"
	require.NoError(t, v.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.shop}}))
	var location velerov1.BackupStorageLocation
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.namespace, Name: "default"}, &location))
	v.store = filepath.Join(location.Spec.Config["path"], location.Spec.ObjectStorage.Bucket)
	require.NoError(t, os.MkdirAll(v.store, 0o755))
	v.runPods()
	return v
}

// class creates a storage class of the driver with the name of the shop and a suffix.
func (v *volumeSite) class(suffix string, change func(*storagev1.StorageClass)) string {
	v.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: v.shop + "-" + suffix},
		Provisioner: csidriver.Name}
	change(class)
	require.NoError(v.t, v.client.Create(v.t.Context(), class))
	v.t.Cleanup(func() { _ = v.client.Delete(context.Background(), class) })
	return class.Name
}

// snapshotClass creates a class of snapshots that are ready when a file exists.
func (v *volumeSite) snapshotClass(readyWith string) string {
	v.t.Helper()
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: v.shop + "-later"}, Driver: csidriver.Name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		Parameters:     map[string]string{csidriver.ReadyWith: readyWith},
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), class))
	v.t.Cleanup(func() { _ = v.client.Delete(context.Background(), class) })
	return class.Name
}

// claim creates a claim of the driver, and waits until it has a volume.
func (v *volumeSite) claim(name string, mode corev1.PersistentVolumeMode) {
	v.t.Helper()
	class := csidriver.StorageClass
	require.NoError(v.t, v.client.Create(v.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": oneGi}},
		},
	}))
	v.volume(v.shop, name)
}

// dir returns the directory of the volume of a claim.
func (v *volumeSite) dir(namespace, name string) string {
	return v.plane.disks.Volume(v.volume(namespace, name).Spec.CSI.VolumeHandle)
}

// unscheduled is the prefix of the names of pods that are not scheduled.
const unscheduled = "unscheduled-"

// runPods schedules the pods of the site that expose volumes, when their claims are bound, and mounts the volumes like
// a kubelet, until the test ends. A volume is moved to the mount path of a kubelet, and the driver finds it there.
func (v *volumeSite) runPods() {
	ctx := v.t.Context()
	pods, err := v.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(v.namespace))
	require.NoError(v.t, err)
	var running sync.WaitGroup
	v.t.Cleanup(running.Wait)
	v.t.Cleanup(pods.Stop)
	running.Go(func() {
		for event := range pods.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Labels[velerov1.ExposerPodGroupLabel] == "" || strings.HasPrefix(pod.Name, unscheduled) {
				continue
			}
			switch event.Type {
			case watch.Added:
				running.Go(func() {
					if err := v.run(ctx, pod); client.IgnoreNotFound(err) != nil && !v.ending(ctx, pod) && ctx.Err() == nil {
						v.t.Errorf("run pod %s: %v", pod.Name, err)
					}
				})
			case watch.Deleted:
				// These are no block devices in most cases.
				_ = exec.Command("sh", "-c", fmt.Sprintf("for d in %s/*/%s/volumeDevices/*/*; do losetup -d $(readlink $d); done",
					v.root, pod.UID)).Run()
			}
		}
	})
}

// ending reports whether a pod has been deleted, or is being deleted, so that it cannot run any more.
func (v *volumeSite) ending(ctx context.Context, pod *corev1.Pod) bool {
	now := new(corev1.Pod)
	err := v.client.Get(ctx, client.ObjectKeyFromObject(pod), now)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != pod.UID || now.DeletionTimestamp != nil)
}

func (v *volumeSite) run(ctx context.Context, pod *corev1.Pod) error {
	node := v.nodes[len(pod.Name)%len(v.nodes)]
	for _, other := range v.nodes {
		if apierrors.IsNotFound(v.client.Get(ctx, client.ObjectKey{Name: node}, new(corev1.Node))) {
			node = other
		}
	}
	if wanted := pod.Spec.NodeSelector[corev1.LabelHostname]; wanted != "" {
		node = wanted
	}
	pv := new(corev1.PersistentVolume)
	for began := time.Now(); ; {
		claim := new(corev1.PersistentVolumeClaim)
		err := v.client.Get(ctx,
			client.ObjectKey{Namespace: pod.Namespace, Name: pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName}, claim)
		switch {
		case err != nil:
		case claim.Status.Phase == corev1.ClaimBound:
			err = v.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, pv)
		case claim.Annotations[selectedNode] == "" && *claim.Spec.StorageClassName == v.late():
			before := claim.DeepCopy()
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, selectedNode, node)
			err = v.client.Patch(ctx, claim, client.MergeFrom(before))
		}
		if err != nil {
			return err
		}
		if pv.Name != "" {
			break
		}
		select {
		case <-time.After(controlplane.Pause(began)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := v.client.SubResource("binding").Create(ctx, pod,
		&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: node}})
	if err != nil {
		return err
	}
	if err := v.mount(filepath.Join(v.root, node, string(pod.UID)), pv); err != nil {
		return err
	}
	if err := v.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	return v.client.Status().Update(ctx, pod)
}

// selectedNode is the annotation with which a scheduler selects the node for the volume of a claim.
const selectedNode = "volume.kubernetes.io/selected-node"

// late returns the name of the storage class of the site whose volumes are made for pods, if there is one.
func (v *volumeSite) late() string { return v.shop + "-late" }

// mount moves a volume of the driver to the mount path of a kubelet in a pod. The device of a block volume is made
// from a file in the volume.
func (v *volumeSite) mount(pod string, pv *corev1.PersistentVolume) error {
	volume, at := v.plane.disks.Volume(pv.Spec.CSI.VolumeHandle), filepath.Join(pod, "volumes/kubernetes.io~csi", pv.Name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	at = filepath.Join(at, "mount")
	was, err := filepath.EvalSymlinks(volume) // of a former pod, maybe
	if err != nil {
		return err
	}
	if err := os.Rename(was, at); err != nil {
		return err
	}
	_ = os.Remove(volume)
	if err := os.Symlink(at, volume); err != nil {
		return err
	}
	if *pv.Spec.VolumeMode != corev1.PersistentVolumeBlock {
		return nil
	}
	// A kubelet has no directory for a block volume.
	kept := filepath.Join(pod, "block-"+pv.Name)
	if err := errors.Join(os.Rename(at, kept), os.RemoveAll(filepath.Dir(at)), os.Remove(volume),
		os.Symlink(kept, volume)); err != nil {
		return err
	}
	at = kept
	file := filepath.Join(at, "device")
	if _, err := os.Stat(file); os.IsNotExist(err) {
		if err := os.WriteFile(file, make([]byte, deviceSize), 0o600); err != nil {
			return err
		}
	}
	out, err := exec.Command("losetup", "-f", "--show", file).Output()
	if err != nil {
		return err
	}
	devices := filepath.Join(pod, "volumeDevices/kubernetes.io~csi")
	if err := os.MkdirAll(devices, 0o755); err != nil {
		return err
	}
	return os.Symlink(strings.TrimSpace(string(out)), filepath.Join(devices, pv.Name))
}

const deviceSize = 4 << 20

var oneGi = resource.MustParse("1Gi")

// agents starts an agent for each node, in a pod of its own.
func (v *volumeSite) agents(args ...string) []*agent {
	v.t.Helper()
	var all []*agent
	for _, node := range v.nodes {
		all = append(all, v.agent(node, append([]string{"--pod-name", v.agentPod(node).Name}, args...)...))
	}
	return all
}

// agentPod creates the pod of the agent of a node, unless it exists.
func (v *volumeSite) agentPod(node string) *corev1.Pod {
	v.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "agent-" + node,
		Labels: map[string]string{"role": "node-agent"}}}
	if v.client.Get(v.t.Context(), client.ObjectKeyFromObject(pod), pod) == nil {
		return pod
	}
	pod.Spec = corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{
			{Name: "agent", Image: "cleat.invalid/cleat:1"},
		},
		Tolerations: []corev1.Toleration{{Key: "only", Operator: corev1.TolerationOpExists}},
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), pod))
	pod.Status.Phase = corev1.PodRunning
	require.NoError(v.t, v.client.Status().Update(v.t.Context(), pod))
	return pod
}

// serve starts a server.
func (v *volumeSite) serve(args ...string) *agent {
	v.t.Helper()
	base := []string{
		"server", "--kubeconfig", shared.Get(v.t).Kubeconfig, "--namespace", v.namespace, "--metrics-address", "0",
		"--profiler-address", "",
		"--scratch-dir", v.t.TempDir(), "--plugin-dir", v.plugins, "--config", v.configFile(), "--features", "EnableCSI",
		"--leader-elect=false",
		"--shutdown-grace-period", "1s", "--queue-sweep", "0", "--backup-sync-period", "0", "--log-level", "debug",
	}
	return v.start("server", append(append(base, v.serverArgs...), args...)...)
}

// readJSON decodes a compressed file of the bucket.
func readJSON[T any](v *volumeSite, path ...string) (value T) {
	v.t.Helper()
	file, err := os.Open(filepath.Join(append([]string{v.store}, path...)...))
	require.NoError(v.t, err)
	defer file.Close()
	gz, err := gzip.NewReader(file)
	require.NoError(v.t, err)
	require.NoError(v.t, json.NewDecoder(gz).Decode(&value))
	return value
}

// ended waits until a backup or restore has ended, and returns its results.
func (v *volumeSite) ended(object client.Object, phase func() string, results string) string {
	v.t.Helper()
	v.eventually(object.GetName()+" has ended", func() (bool, error) {
		err := v.client.Get(v.t.Context(), client.ObjectKeyFromObject(object), object)
		return slices.Contains([]string{"Completed", "PartiallyFailed", "Failed", "FailedValidation"}, phase()), err
	})
	text, _ := json.Marshal(readJSON[any](v, filepath.Dir(results), filepath.Base(results)))
	return string(text)
}
