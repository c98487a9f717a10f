package nodeagent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// held is a snapshot whose restores do not end while it exists.
const held = "held"

// newHeld returns a site whose agent has the mover for tests, with a claim "data" and a repository, whose backups and
// restores do not end. Volumes that are made for restores are retained by their class.
func newHeld(t *testing.T, nodes int, config string) (v *volumeSite, retained string) {
	t.Helper()
	v = newVolumeSite(t, nodes)
	v.configure(config)
	v.claim("data", corev1.PersistentVolumeFilesystem)
	stored := filepath.Join(v.store, "restic", v.namespace, held)
	require.NoError(t, os.MkdirAll(stored, 0o755))
	for _, dir := range []string{v.dir(v.shop, "data"), stored} {
		for _, file := range []string{"hold", "data"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("of the user"), 0o600))
		}
	}
	policy := corev1.PersistentVolumeReclaimRetain
	return v, v.class("retained", func(c *storagev1.StorageClass) { c.ReclaimPolicy = &policy })
}

// csiEndsEverywhere cancels and deletes DataUploads and DataDownloads in each phase, also when their agent was killed.
// Only the objects of the user remain.
func csiEndsEverywhere(t *testing.T) {
	t.Parallel()
	v, retained := newHeld(t, 1, `{"loadConcurrency": {"globalConfig": 6, "prepareQueueLength": 12}}`)
	later := v.snapshotClass(filepath.Join(t.TempDir(), "never"))
	v.take("own", "data", "chosen")
	a := v.agents()[0]

	var cancelled, deleted []client.Object
	begin := func(phase velerov1.LoadPhase, prefix string, endings ...string) {
		for _, ending := range endings {
			upload, download := v.uploadOf(prefix+"u-"+ending, "data"), v.downloadOf(prefix+"d-"+ending, held)
			class := "chosen"
			if prefix == "unready-" {
				class = later
			} else {
				v.target(download.Name, retained)
			}
			v.take(upload.Name, "data", class)
			v.create(upload, download)
			if ending == "deleted" {
				deleted = append(deleted, upload, download)
			} else {
				cancelled = append(cancelled, upload, download)
			}
			v.awaitPhase("DataUpload/"+upload.Name, phase)
			v.awaitPhase("DataDownload/"+download.Name, phase)
		}
	}
	begin(velerov1.LoadPhaseInProgress, "running-", "canceled", "deleted", "killed")
	begin(velerov1.LoadPhasePrepared, "prepared-", "canceled", "deleted")
	begin(velerov1.LoadPhaseAccepted, unscheduled, "canceled", "deleted")
	v.eventually("their volumes are being exposed", func() (bool, error) {
		var pods corev1.PodList
		err := v.client.List(t.Context(), &pods, client.InNamespace(v.namespace),
			client.HasLabels{velerov1.ExposerPodGroupLabel})
		return len(slices.DeleteFunc(pods.Items,
			func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, unscheduled) })) == 4, err
	})
	begin(velerov1.LoadPhaseAccepted, "unready-", "canceled", "deleted")
	begin(velerov1.LoadPhaseNew, "new-", "canceled", "deleted")
	v.await("those that are New wait", func(last map[string]state) bool {
		return last["DataUpload/new-u-canceled"].message != "" && last["DataDownload/new-d-deleted"].message != ""
	})

	all := append(slices.Clone(cancelled), deleted...)
	end := func(some func(name string) bool) {
		for _, object := range all {
			switch {
			case !some(object.GetName()):
			case slices.Contains(deleted, object):
				require.NoError(t, v.client.Delete(t.Context(), object))
			default:
				v.change(object, func() { cancelLoad(object) })
			}
		}
	}
	killed := func(name string) bool { return strings.HasSuffix(name, "-killed") }
	isNew := func(name string) bool { return strings.HasPrefix(name, "new-") }
	end(isNew) // before there is a slot for them
	end(func(name string) bool { return !isNew(name) && !killed(name) })
	v.await("all but those that go on have ended", func(last map[string]state) bool {
		for _, o := range last {
			if !killed(o.name) && o.phase != "" && !o.phase.Terminal() {
				return false
			}
		}
		return true
	})
	a.kill()
	end(killed)
	v.agents()
	v.awaitEnd(len(all))
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCanceled: len(cancelled), "": len(deleted)}, v.ends())

	// The snapshot of a load that no agent has processed is deleted with the others of its backup.
	v.remains(2, "snapshot own", "snapshot new-u-deleted")
	v.untouched()
	for _, object := range all {
		download, is := object.(*velerov2alpha1.DataDownload)
		if !is || strings.HasPrefix(download.Name, "unready-") {
			continue
		}
		var target corev1.PersistentVolumeClaim
		require.NoError(t, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.shop, Name: download.Name}, &target))
		require.Empty(t, target.Spec.VolumeName)
		require.Nil(t, target.DeletionTimestamp)
	}
}

// csiCanceledWhileVolumeIsMade cancels a load while its volume is being made. Its class would retain the volume
// without a claim. Nothing of it remains.
func csiCanceledWhileVolumeIsMade(t *testing.T) {
	t.Parallel()
	v, _ := newHeld(t, 1, `{}`)
	file, policy := filepath.Join(t.TempDir(), "made"), corev1.PersistentVolumeReclaimRetain
	slow := v.class("slow", func(c *storagev1.StorageClass) {
		c.ReclaimPolicy, c.Parameters = &policy, map[string]string{csidriver.MadeWith: file}
	})
	v.target("slow", slow)
	download := v.downloadOf("slow", held)
	v.create(download)
	v.agents()
	claim := new(corev1.PersistentVolumeClaim)
	v.eventually("a volume is being made", func() (bool, error) {
		err := v.client.Get(t.Context(), client.ObjectKeyFromObject(download), claim)
		return err == nil && claim.Annotations["volume.kubernetes.io/storage-provisioner"] != "", client.IgnoreNotFound(err)
	})
	v.change(download, func() { cancelLoad(download) })
	time.Sleep(2 * time.Second) // an agent checks it once per second
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKeyFromObject(download), claim))
	require.Nil(t, claim.DeletionTimestamp)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	v.awaitPhase("DataDownload/slow", velerov1.LoadPhaseCanceled)
	v.remains(0)
}

// remains waits until the cluster has only some objects of snapshots and exposed volumes, and the given number of
// contents.
func (v *volumeSite) remains(contents int, some ...string) {
	v.t.Helper()
	var left []string
	defer func() {
		if v.t.Failed() {
			v.t.Log("left:", left)
		}
	}()
	slices.Sort(some)
	isContent := func(object string) bool { return strings.HasPrefix(object, "content ") }
	v.eventually("only what is the user's remains", func() (bool, error) {
		left = v.left()
		slices.Sort(left)
		others := slices.DeleteFunc(slices.Clone(left), isContent)
		return slices.Equal(others, some) && len(left)-len(others) == contents, nil
	})
}

// untouched requires that the volume of the user is unchanged, and that volumes can be made from the user's snapshot.
func (v *volumeSite) untouched() {
	v.t.Helper()
	data, err := os.ReadFile(filepath.Join(v.dir(v.shop, "data"), "data"))
	require.NoError(v.t, err)
	require.Equal(v.t, "of the user", string(data))
	class, group := csidriver.StorageClass, "snapshot.storage.k8s.io"
	require.NoError(v.t, v.client.Create(v.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: "of-own"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class,
			Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": oneGi}},
			DataSource: &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "own"},
		},
	}))
	data, err = os.ReadFile(filepath.Join(v.dir(v.shop, "of-own"), "data"))
	require.NoError(v.t, err)
	require.Equal(v.t, "of the user", string(data))
}

// csiLostNode deletes the node on which the snapshot of a DataUpload and the volume of a DataDownload are exposed,
// while their data is moved. The agent of another node exposes them again, and moves the data.
func csiLostNode(t *testing.T) {
	t.Parallel()
	v, retained := newHeld(t, 2, `{"loadConcurrency": {"globalConfig": 2}}`)
	v.take("up", "data", "chosen")
	v.target("dd", retained) // its name is as long, so it is exposed on the same node
	upload, download := v.uploadOf("up", "data"), v.downloadOf("dd", held)
	agents := v.agents()
	v.create(upload, download)
	node := v.awaitPhase("DataUpload/up", velerov1.LoadPhaseInProgress).node
	require.Equal(t, node, v.awaitPhase("DataDownload/dd", velerov1.LoadPhaseInProgress).node)
	for _, a := range agents {
		if a.node == node {
			a.kill()
		}
	}
	require.NoError(t, v.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	v.await("another node has them", func(last map[string]state) bool {
		up, down := last["DataUpload/up"], last["DataDownload/dd"]
		return up.phase == velerov1.LoadPhaseInProgress && down.phase == velerov1.LoadPhaseInProgress &&
			up.node != node && down.node != node
	})
	stored := filepath.Join(v.store, "restic", v.namespace, held)
	require.NoError(t, os.Remove(filepath.Join(stored, "hold")))
	require.NoError(t, os.Remove(filepath.Join(v.dir(v.namespace, "up"), "hold")))
	for _, load := range []client.Object{upload, download} {
		key := map[client.Object]string{upload: "DataUpload/up", download: "DataDownload/dd"}[load]
		v.awaitPhase(key, velerov1.LoadPhaseCompleted)
		require.NoError(t, v.client.Get(t.Context(), client.ObjectKeyFromObject(load), load))
		require.Equal(t, "2", attemptOf(load), key)
	}
	data, err := os.ReadFile(filepath.Join(v.dir(v.shop, "dd"), "data"))
	require.NoError(t, err)
	require.Equal(t, "of the user", string(data))
	v.remains(0)
}

// csiPrepareTimeouts has loads whose volumes do not become accessible in time. Each records the reason, and leaves
// nothing.
func csiPrepareTimeouts(t *testing.T) {
	t.Parallel()
	v, retained := newHeld(t, 1, `{}`)
	later := v.snapshotClass(filepath.Join(t.TempDir(), "never"))
	late := v.class("late", func(c *storagev1.StorageClass) {
		c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	})
	v.take("own", "data", "chosen")
	a := v.agents()[0]
	unready, unmade, pending, image := v.uploadOf("unready", "data"), v.uploadOf("unmade", "data"), v.uploadOf(unscheduled+
		"node", "data"), v.uploadOf(unscheduled+"image", "data")
	unmade.Spec.CSISnapshot.StorageClass = "none-" + v.namespace
	v.take("unready", "data", later)
	for _, upload := range []*velerov2alpha1.DataUpload{unmade, pending, image} {
		v.take(upload.Name, "data", "chosen")
	}
	absent, unused, stuck := v.downloadOf("absent", held), v.downloadOf("unused", held), v.downloadOf(unscheduled+"target",
		held)
	v.target("unused", late)
	v.target(stuck.Name, retained)
	v.create(unready, unmade, pending, image, absent, unused, stuck)
	exposed := []string{"unmade", pending.Name, image.Name, stuck.Name}
	pods := map[string]*corev1.Pod{}
	for _, name := range exposed {
		pod := new(corev1.Pod)
		v.eventually("pod "+name+" exists", func() (bool, error) {
			return true, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.namespace, Name: name}, pod)
		})
		pods[name] = pod
	}
	for _, name := range exposed[1:] {
		v.volume(v.namespace, name)
	}
	pods[pending.Name].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	pods[image.Name].Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "holder", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
			Message: "no such image"}},
	}}
	for _, name := range []string{pending.Name, image.Name} {
		require.NoError(t, v.client.Status().Update(t.Context(), pods[name]))
	}
	for _, key := range []string{"DataUpload/unready", "DataDownload/absent", "DataDownload/unused"} {
		v.awaitPhase(key, velerov1.LoadPhaseAccepted)
	}

	a.kill() // the next one has a shorter timeout
	v.agents("--data-mover-prepare-timeout", "1ms")
	v.awaitEnd(7)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseFailed: 7}, v.ends())
	v.history.mu.Lock()
	for key, why := range map[string]string{
		"DataUpload/unready": "VolumeSnapshot " + v.shop + "/unready is not ready to use",
		"DataUpload/unmade": "pod unmade, which exposes the volume, is not running, volume claim unmade has " +
			"no volume yet",
		"DataUpload/" + pending.Name: "pod " + pending.Name +
			", which exposes the volume, is not running, it is not scheduled: 0/1 nodes are available",
		"DataUpload/" + image.Name: "pod " + image.Name +
			", which exposes the volume, is not running, its container waits: ImagePullBackOff no such image",
		"DataDownload/absent": "volume claim " + v.shop + "/absent is not restored yet",
		"DataDownload/unused": "volume claim " + v.shop +
			"/unused waits for a pod that uses it, which chooses the node of the volume; restore such a pod, or set " +
			"restorePVC.ignoreDelayBinding in the ConfigMap of the node agents",
		"DataDownload/" + stuck.GetName(): "pod " + stuck.Name + ", which exposes the volume, is not running",
	} {
		kind, _, _ := strings.Cut(key, "/")
		require.Equal(t, fmt.Sprintf("timeout on preparing %s: %s after 1ms", kind, why), v.history.last[key].message)
	}
	v.history.mu.Unlock()
	v.remains(1, "snapshot own")
	v.untouched()
}

// csiTakenNames has loads whose volumes cannot be exposed, because the user has objects with their names, or whose
// target already has a volume. They fail, and the objects stay.
func csiTakenNames(t *testing.T) {
	t.Parallel()
	v, retained := newHeld(t, 1, `{}`)
	v.take("own", "data", "chosen")
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: v.namespace, Name: name} }
	claim := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: new("none"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": oneGi}},
	}
	pod := corev1.PodSpec{AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	content := v.namespace + "-content-u"
	taken := []client.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("claim-u"), Spec: claim}, &corev1.PersistentVolumeClaim{
			ObjectMeta: meta("claim-d"), Spec: claim,
		},
		&corev1.Pod{ObjectMeta: meta("pod-u"), Spec: pod}, &corev1.Pod{ObjectMeta: meta("pod-d"), Spec: pod},
		&snapshotv1.VolumeSnapshot{ObjectMeta: meta("snapshot-u"), Spec: snapshotv1.VolumeSnapshotSpec{
			Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: new("none")}, VolumeSnapshotClassName: new(
				"chosen",
			),
		}},
		&snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: content},
			Spec: snapshotv1.VolumeSnapshotContentSpec{
				Driver: csidriver.Name, DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
				Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("of the user")},
				VolumeSnapshotRef: corev1.ObjectReference{APIVersion: "snapshot.storage.k8s.io/v1", Kind: "VolumeSnapshot",
					Namespace: "user", Name: "none"},
			}},
	}
	for _, object := range taken {
		v.eventually(object.GetName()+" is created", func() (bool, error) { // the service account of pods may not exist yet
			return true, v.client.Create(t.Context(), object)
		})
	}
	t.Cleanup(func() { _ = v.client.Delete(context.Background(), taken[5]) })
	v.claim("bound-d", corev1.PersistentVolumeFilesystem)
	bound := v.volume(v.shop, "bound-d")
	for _, name := range []string{"claim-u", "pod-u", "snapshot-u", "content-u"} {
		v.taken(name, "data")
	}
	for _, name := range []string{"claim-d", "pod-d"} {
		v.target(name, retained)
		v.create(v.downloadOf(name, held))
	}
	v.create(v.downloadOf("bound-d", held))
	v.agents()
	v.awaitEnd(7)
	v.history.mu.Lock()
	for key, why := range map[string]string{
		"DataUpload/claim-u": "volume claim " + v.namespace +
			"/claim-u exists and does not belong to DataUpload claim-u; rename or delete it",
		"DataUpload/pod-u": "pod " + v.namespace +
			"/pod-u exists and does not belong to DataUpload pod-u; rename or delete it",
		"DataUpload/snapshot-u": "VolumeSnapshot " + v.namespace + "/snapshot-u exists and is not of VolumeSnapshotContent " +
			v.namespace + "-snapshot-u; rename or delete it",
		"DataUpload/content-u": "VolumeSnapshotContent " + content + " exists and is not of VolumeSnapshot " + v.namespace +
			"/content-u; rename or delete it",
		"DataDownload/claim-d": "volume claim " + v.namespace +
			"/claim-d exists and does not belong to DataDownload claim-d; rename or delete it",
		"DataDownload/pod-d": "pod " + v.namespace +
			"/pod-d exists and does not belong to DataDownload pod-d; rename or delete it",
		"DataDownload/bound-d": "volume claim " + v.shop + "/bound-d is bound to volume " + bound.Name +
			" already, the data is not restored into it",
	} {
		require.Equal(t, velerov1.LoadPhaseFailed, v.history.last[key].phase, key)
		require.Contains(t, v.history.last[key].message, why)
	}
	v.history.mu.Unlock()
	v.remains(1, "snapshot own", "claim claim-u", "claim claim-d", "snapshot snapshot-u")
	for _, object := range taken {
		uid := object.GetUID()
		require.NoError(t, v.client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		require.Equal(t, uid, object.GetUID())
		require.Nil(t, object.GetDeletionTimestamp(), object.GetName())
	}
	require.Equal(t, bound.UID, v.volume(v.shop, "bound-d").UID)
	v.untouched()
}
