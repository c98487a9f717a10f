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
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// files is a site with a server, a bucket and a data mover, whose kubelet creates the volumes of pods.
type files struct {
	*site
	bucket string // its directory
}

// storage is a bucket.
type storage struct {
	controlplane.S3 // contains it
	bucket          string
}

func newStorage(t *testing.T, cluster *controlplane.Cluster) storage {
	t.Helper()
	return storage{cluster.S3, cluster.NewBucket(t, "files")}
}

// newFiles returns a site with some nodes. Backups go to S3.
func newFiles(t *testing.T, nodes int) *files {
	t.Helper()
	s := newSite(t, nodes)
	return newFilesOn(t, s, newStorage(t, s.plane.Get(t)))
}

// newFilesOn adds the data mover, a bucket and the image of the init container of restored pods to a site.
func newFilesOn(t *testing.T, s *site, in storage) *files {
	t.Helper()
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud"},
		StringData: map[string]string{"cloud": fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n",
			in.AccessKey, in.SecretKey)},
	}, &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Name: "objects"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "cleat.dev/s3", Credential: &velerov1.SecretKeySelector{Name: "cloud", Key: "cloud"},
			Config:      map[string]string{"region": in.Region, "s3Url": in.Endpoint, "s3ForcePathStyle": "true"},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: in.bucket}},
		},
	}, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "helper", Labels: map[string]string{"velero.io/plugin-config": "",
			"velero.io/pod-volume-restore": "RestoreItemAction"}},
		Data: map[string]string{"image": cleatImage, "cpuLimit": "200m"},
	})
	s.useKopia()
	s.environment = append(s.environment, "CLEAT_STATE_DIR="+t.TempDir())
	return &files{site: s, bucket: filepath.Join(in.Dir, in.bucket)}
}

// runAgent runs the agent of the node, and creates a pod for it, like a DaemonSet.
func (f *files) runAgent() *agent {
	f.t.Helper()
	f.run(agentPodOn(f.namespace, f.nodes[0]), nil)
	return f.agent(f.nodes[0])
}

// agentPodOn returns the pod that shows a server that the agent of a node runs.
func agentPodOn(namespace, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "node-agent",
			Labels: map[string]string{"role": "node-agent"}},
		Spec: corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
}

// run creates and runs a pod, with directories for its volumes: by their names the parts of the paths after
// "volumes/".
func (f *files) run(pod *corev1.Pod, volumes map[string]string) {
	f.t.Helper()
	f.retry("create pod "+pod.Name, func(ctx context.Context) error { return f.client.Create(ctx, pod) })
	f.mount(pod, volumes)
	pod.Status.Phase = corev1.PodRunning
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), pod))
}

func (f *files) mount(pod *corev1.Pod, volumes map[string]string) {
	f.t.Helper()
	for _, path := range volumes {
		require.NoError(f.t, os.MkdirAll(f.volume(pod, path), 0o755))
	}
}

func (f *files) volume(pod *corev1.Pod, path string) string {
	return filepath.Join(f.root, f.nodes[0], string(pod.UID), "volumes", path)
}

// serve starts a server.
func (f *files) serve(args ...string) *agent {
	f.t.Helper()
	base := []string{
		"server", "--kubeconfig", f.plane.Get(f.t).Kubeconfig, "--namespace", f.namespace, "--plugin-dir", f.plugins,
		"--metrics-address", "0", "--profiler-address", "", "--scratch-dir", f.t.TempDir(),
		"--default-backup-storage-location", "objects", "--leader-elect=false", "--log-level", "debug",
		"--item-operation-sync-frequency", "1s",
	}
	return f.start("server", append(append(base, f.serverArgs...), args...)...)
}

// cleat runs a command.
func (f *files) cleat(args ...string) (string, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.Build(f.t, "server/cmd/cleat"),
		append(args, "--kubeconfig", f.plane.Get(f.t).Kubeconfig, "--namespace", f.namespace)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// backUp makes a backup of a namespace, and returns it at its end.
func (f *files) backUp(name string, spec velerov1.BackupSpec) *velerov1.Backup {
	f.t.Helper()
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	f.create(b)
	return f.ended(name)
}

// ended returns a backup at its end.
func (f *files) ended(name string) *velerov1.Backup {
	f.t.Helper()
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	f.retry("backup "+name+" ends", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if !b.Status.Phase.Terminal() {
			return fmt.Errorf("it is %s", b.Status.Phase)
		}
		return nil
	})
	return b
}

// restored returns a restore at its end.
func (f *files) restored(r *velerov1.Restore) *velerov1.Restore {
	f.t.Helper()
	f.retry("restore "+r.Name+" ends", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if !r.Status.Phase.Terminal() {
			return fmt.Errorf("it is %s", r.Status.Phase)
		}
		return nil
	})
	return r
}

// read decodes a file of a backup or restore.
func (f *files) read(to any, path ...string) {
	f.t.Helper()
	file, err := os.Open(filepath.Join(append([]string{f.bucket}, path...)...))
	require.NoError(f.t, err)
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(f.t, err)
	require.NoError(f.t, json.NewDecoder(unzipped).Decode(to))
}

func (f *files) results(kind, name string) string {
	f.t.Helper()
	var all any
	prefix := map[string]string{"backups": "", "restores": "restore-"}[kind]
	f.read(&all, kind, name, prefix+name+"-results.gz")
	return fmt.Sprint(all)
}

// shop is a namespace with a pod whose volumes have data.
func (f *files) shop() (namespace string, db *corev1.Pod) {
	f.t.Helper()
	namespace = "shop-" + f.namespace
	require.NoError(f.t, f.client.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	f.claim(namespace, "data", "pv-of-"+namespace)
	host := corev1.HostPathVolumeSource{Path: "/"}
	db = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db",
			Annotations: map[string]string{velerov1.VolumesToBackupAnnotation: "data,cache,host,gone,unused"}},
		Spec: corev1.PodSpec{
			NodeName: f.nodes[0], AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "app", Image: "app", VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: "/data"}, {Name: "cache", MountPath: "/cache"}, {Name: "other", MountPath: "/other"},
				{Name: "host", MountPath: "/host"},
			}}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
					ClaimName: "data",
				}}},
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "unused", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &host}},
			},
		},
	}
	volumes := dirs("pv-of-" + namespace)
	f.run(db, volumes)
	for name, path := range volumes {
		require.NoError(f.t, os.WriteFile(filepath.Join(f.volume(db, path), "file"), []byte("content of "+name), 0o640))
	}
	return namespace, db
}

func dirs(pv string) map[string]string {
	return map[string]string{
		"data": "kubernetes.io~csi/" + pv + "/mount", "cache": "kubernetes.io~empty-dir/cache",
		"other": "kubernetes.io~empty-dir/other",
	}
}

// claim creates a claim that is bound to a volume.
func (f *files) claim(namespace, name, pv string) {
	f.t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: pv, StorageClassName: new("fast"), AccessModes: modes, Resources: corev1.VolumeResourceRequirements{
				Requests: size,
			},
		},
	}
	require.NoError(f.t, f.client.Create(f.t.Context(), claim))
	volume := f.persistent(pv, claim)
	require.NoError(f.t, f.client.Create(f.t.Context(), volume))
	before := claim.DeepCopy()
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, size, modes
	// controllers write to the claim as well
	require.NoError(f.t, f.client.Status().Patch(f.t.Context(), claim, client.MergeFrom(before)))
}

func (f *files) persistent(name string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	f.t.Cleanup(func() {
		_ = f.client.Delete(context.Background(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.io", VolumeHandle: name},
			},
		},
	}
}

// admit runs a restored pod up to its init container: it provides the volume of its claim, binds it to the node and
// mounts its volumes, which prepare changes before they are restored.
func (f *files) admit(namespace, name string, prepare ...func(*corev1.Pod)) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{}
	f.retry("pod "+name+" is restored", func(ctx context.Context) error {
		return f.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
	})
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: namespace, Name: "data"}, claim))
	require.Empty(f.t, claim.Spec.VolumeName, "a restored claim gets a new volume")
	pv := "pv-of-" + namespace
	require.NoError(f.t, f.client.Create(f.t.Context(), f.persistent(pv, claim)))
	f.change(claim, func() { claim.Spec.VolumeName = pv })
	f.mount(pod, dirs(pv))
	f.mount(pod, map[string]string{podclaims.WaitVolume: waitDir + "/" + podclaims.WaitVolume})
	for _, change := range prepare {
		change(pod)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Target: corev1.ObjectReference{Kind: "Node", Name: f.nodes[0]}}
	require.NoError(f.t, f.client.SubResource("binding").Create(f.t.Context(), pod, binding))
	f.retry("the init container runs", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: "restore-wait", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}
		return f.client.Status().Update(ctx, pod)
	})
	return pod
}

// waitDir is the directory of a restored pod with the volume in which it learns that the others are restored.
const waitDir = "kubernetes.io~wait"

// endWait ends the init container of a restored pod.
func (f *files) endWait(pod *corev1.Pod) {
	f.t.Helper()
	f.retry("the init container has ended", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		return f.client.Status().Update(ctx, pod)
	})
}

// helper runs the program of the init container, with the signals in one directory.
func (f *files) helper(pod *corev1.Pod, dir, limit string) (string, error) {
	f.t.Helper()
	link := filepath.Join(f.t.TempDir(), "velero-restore-helper")
	require.NoError(f.t, os.Symlink(programs.Build(f.t, "server/cmd/cleat"), link))
	cmd := exec.CommandContext(f.t.Context(), link, append(pod.Spec.InitContainers[0].Args, "--signals",
		f.volume(pod, dir), "--volumes", f.t.TempDir())...)
	cmd.Env = append(os.Environ(), "CLEAT_RESTORE_TIMEOUT="+limit)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAcceptVolumes_FSBackup backs up the volumes of a pod from the file system with restic, and restores them into
// another namespace.
func TestAcceptVolumes_FSBackup(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.useRestic()
	shop, db := f.shop()
	server := f.serve()
	spec := velerov1.BackupSpec{IncludedNamespaces: []string{shop}}

	none := f.backUp("no-agent", spec)
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, none.Status.Phase)
	require.Contains(t, f.results("backups", "no-agent"),
		"has no node agents, which move the data of volumes; install them with cleat install --use-node-agent")

	f.runAgent()
	b := f.backUp("b", spec)
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", "b"))
	found := f.results("backups", "b")
	for _, warning := range []string{`names volume "gone", which the pod does not have`,
		"volume unused is not backed up from the file system: no container mounts it", "a hostPath belongs to the node"} {
		require.Contains(t, found, warning)
	}
	var loads velerov1.PodVolumeBackupList
	require.NoError(t, f.client.List(t.Context(), &loads, client.InNamespace(f.namespace),
		client.MatchingLabels{velerov1.BackupUIDLabel: string(b.UID)}))
	require.Len(t, loads.Items, 2)
	for _, load := range loads.Items {
		require.True(t, strings.HasPrefix(load.Name, "b-"))
		require.Equal(t, velerov1.LoadPhaseCompleted, load.Status.Phase)
		require.Equal(t, "b", load.Labels[velerov1.BackupNameLabel])
		require.Equal(t, metav1.GetControllerOf(&load).UID, b.UID)
		require.Subset(t, load.Spec.Tags, map[string]string{
			"backup": "b", "backup-uid": string(b.UID), "pod": "db", "pod-uid": string(db.UID), "ns": shop,
			"volume": load.Spec.Volume,
		})
		if load.Spec.Volume == "data" {
			require.Equal(t, "data", load.Annotations[velerov1.PVCNameAnnotation])
			require.Equal(t, load.Labels[velerov1.PVCUIDLabel], load.Spec.Tags["pvc-uid"])
			require.Equal(t, "fast", load.Annotations[velerov1.LoadStorageClassAnnotation])
			require.Equal(t, "1073741824", load.Annotations[velerov1.LoadBytesAnnotation])
		}
	}
	var stored []velerov1.PodVolumeBackup
	f.read(&stored, "backups", "b", "b-podvolumebackups.json.gz")
	require.Len(t, stored, 2)
	require.NotEmpty(t, stored[0].Status.SnapshotID)
	var infos []volumes.VolumeInfo
	f.read(&infos, "backups", "b", "b-volumeinfo.json.gz")
	require.Len(t, infos, 2)
	for _, info := range infos {
		require.Equal(t, volumes.PodVolume, info.BackupMethod)
		require.Equal(t, volumes.Succeeded, info.Result)
		require.Equal(t, "restic", info.PodVolume.UploaderType)
		require.Equal(t, f.nodes[0], info.PodVolume.NodeName)
		require.NotZero(t, info.PodVolume.Size)
	}
	described, err := f.cleat("backup", "describe", "b", "--details")
	require.NoError(t, err, described)
	require.Contains(t, described, "Pod Volume Backups - restic:")
	require.Regexp(t, shop+`/db: cache \(size: 16.*\), data \(size: 15`, described)

	all := f.backUp("all", velerov1.BackupSpec{
		IncludedNamespaces: []string{shop}, DefaultVolumesToFsBackup: new(true),
		UploaderConfig: &velerov1.UploaderConfigForBackup{ParallelFilesUpload: 2},
	})
	require.Equal(t, velerov1.BackupPhaseCompleted, all.Status.Phase, f.results("backups", "all"))
	f.read(&stored, "backups", "all", "all-podvolumebackups.json.gz")
	require.Len(t, stored, 3)
	require.Equal(t, map[string]string{"ParallelFilesUpload": "2"}, stored[0].Spec.UploaderSettings)

	f.create(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "killed"}, Spec: spec})
	f.retry("volumes are backed up", func(ctx context.Context) error {
		if loads := f.loadsOf(ctx, "killed"); len(loads) == 0 {
			return errors.New("there is no PodVolumeBackup")
		}
		return nil
	})
	server.kill()
	f.serve() // another server, which gets all state from the cluster
	require.Equal(t, velerov1.BackupPhaseCompleted, f.ended("killed").Status.Phase, "whatever the first server was doing")
	require.Len(t, f.loadsOf(t.Context(), "killed"), 2, "none is made twice")

	f.restoreInto(t, "b", "restored", "restored-"+f.namespace, db)
	f.failRestores(t, shop)

	snapshots := filepath.Join(f.bucket, "restic", shop, "snapshots")
	before, err := os.ReadDir(snapshots)
	require.NoError(t, err)
	out, err := f.cleat("backup", "delete", "b", "--confirm")
	require.NoError(t, err, out)
	f.retry("the backup is deleted", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(b), &velerov1.Backup{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists, or cannot be read: %w", err)
		}
		return nil
	})
	after, err := os.ReadDir(snapshots)
	require.NoError(t, err)
	require.Len(t, after, len(before)-2, "the repository does not have the snapshots of the backup any more")
}

// failRestores restores volumes that cannot be restored: the snapshot of one does not exist, and the pod of the other
// is deleted. Neither the restore nor the pod waits without a limit.
func (f *files) failRestores(t *testing.T, shop string) {
	t.Helper()
	for i, load := range f.loadsOf(t.Context(), "all") {
		if load.Spec.Volume == "cache" {
			id := f.loadsOf(t.Context(), "all")[i].Status.SnapshotID
			files, err := filepath.Glob(filepath.Join(f.bucket, "restic", shop, "snapshots", id+"*"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.Remove(files[0]))
		}
	}
	fails := func(name string) (*velerov1.Restore, *corev1.Pod) {
		r := &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: velerov1.RestoreSpec{BackupName: "all",
				NamespaceMapping: map[string]string{shop: name + "-" + f.namespace}},
		}
		f.create(r)
		return r, f.admit(name+"-"+f.namespace, "db")
	}
	broken, pod := fails("broken")
	out, err := f.helper(pod, waitDir, "5m")
	require.Error(t, err)
	require.Contains(t, out, "the data of volume cache was not restored: ")
	require.Contains(t, out, "delete the pod, and restore it again")
	out, err = f.helper(pod, "kubernetes.io~csi", "10ms")
	require.Error(t, err, "what is nobody's volume is never restored")
	require.Contains(t, out, "the data was not restored within 10ms")
	f.awaitFailed(broken, "volume cache: Failed")

	removed := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: "removed"},
		Spec: velerov1.RestoreSpec{BackupName: "all",
			NamespaceMapping: map[string]string{shop: "removed-" + f.namespace}},
	}
	f.create(removed)
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "removed-" + f.namespace, Name: "db"}}
	f.retry("the pod is deleted", func(ctx context.Context) error { return f.client.Delete(ctx, gone) })
	f.awaitFailed(removed, "was deleted before its volumes were restored")
}

// awaitFailed waits until a restore is partially failed, for a reason.
func (f *files) awaitFailed(r *velerov1.Restore, why string) {
	f.t.Helper()
	require.Equal(f.t, velerov1.RestorePhasePartiallyFailed, f.restored(r).Status.Phase)
	require.Contains(f.t, f.results("restores", r.Name), why)
}

func (f *files) loadsOf(ctx context.Context, backup string) []velerov1.PodVolumeBackup {
	f.t.Helper()
	var list velerov1.PodVolumeBackupList
	require.NoError(f.t, f.client.List(ctx, &list, client.InNamespace(f.namespace),
		client.MatchingLabels{velerov1.BackupNameLabel: backup}))
	return list.Items
}

// restoreInto restores a backup into another namespace and compares the volumes.
func (f *files) restoreInto(t *testing.T, backup, name, namespace string, db *corev1.Pod) {
	t.Helper()
	r := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: velerov1.RestoreSpec{
			BackupName: backup, NamespaceMapping: map[string]string{db.Namespace: namespace},
			UploaderConfig: &velerov1.UploaderConfigForRestore{ParallelFilesDownload: 2},
		},
	}
	f.create(r)
	pod := f.admit(namespace, "db")
	waits := pod.Spec.InitContainers[0]
	require.Equal(t, "restore-wait", waits.Name)
	require.Equal(t, cleatImage, waits.Image)
	require.Equal(t, []string{"/velero-restore-helper"}, waits.Command)
	require.Equal(t, []string{string(r.UID)}, waits.Args)
	require.Equal(t, "200m", waits.Resources.Limits.Cpu().String())
	require.Equal(t, int64(1000), *waits.SecurityContext.RunAsUser)
	out, err := f.helper(pod, waitDir, "5m")
	require.NoError(t, err, out)
	for _, path := range dirs("pv-of-" + namespace) {
		require.NoDirExists(t, f.volume(pod, path+"/.velero"))
	}
	f.endWait(pod)
	require.Equal(t, velerov1.RestorePhaseCompleted, f.restored(r).Status.Phase, f.results("restores", name))
	for volume, path := range dirs("pv-of-" + namespace) {
		if volume == "other" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(f.volume(pod, path), "file"))
		require.NoError(t, err)
		require.Equal(t, "content of "+volume, string(content))
	}
	var loads velerov1.PodVolumeRestoreList
	require.NoError(t, f.client.List(t.Context(), &loads, client.InNamespace(f.namespace),
		client.MatchingLabels{velerov1.RestoreUIDLabel: string(r.UID)}))
	require.Len(t, loads.Items, 2)
	for _, load := range loads.Items {
		require.Equal(t, string(pod.UID), load.Labels[velerov1.PodUIDLabel])
		require.Equal(t, pod.UID, load.Spec.Pod.UID)
		require.Equal(t, db.Namespace, load.Spec.SourceNamespace)
		require.Equal(t, map[string]string{"ParallelFilesDownload": "2"}, load.Spec.UploaderSettings)
	}
	described, err := f.cleat("restore", "describe", name, "--details")
	require.NoError(t, err, described)
	require.Contains(t, described, string(loads.Items[0].Spec.UploaderType)+" Restores:")
}
