package nodeagent_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/pods"
)

// TestAcceptVolumes_FromVelero has the real Velero, with its node agent on a node with a kubelet, back up the files of
// pods and CSI volumes of files and of blocks. cleat, in another namespace with the same bucket, restores all of them,
// backs them up again, which moves only what has changed, and deletes what Velero has stored. Both maintain the
// repository. Velero restores and deletes the second backup.
func TestAcceptVolumes_FromVelero(t *testing.T) {
	t.Parallel()
	e := newExchange(t)
	e.between(e.veleros, e.cleats)
}

// TestAcceptVolumes_ToVelero is TestAcceptVolumes_FromVelero with the roles exchanged: cleat makes the repositories.
func TestAcceptVolumes_ToVelero(t *testing.T) {
	t.Parallel()
	e := newExchange(t)
	e.between(e.cleats, e.veleros)
}

// exchange has an installation of cleat and one of Velero, with one bucket and one password of repositories.
type exchange struct {
	*machine
	cleats, veleros installation
	storage         storage
	uploader        string // program of Velero's library
}

func newExchange(t *testing.T) *exchange {
	t.Helper()
	in := newStorage(t, onNode.Get(t))
	m := newMachineOn(t, &onNode, in)
	e := &exchange{
		machine: m, storage: in, cleats: installation{m, m.namespace, false},
		veleros: installation{m, m.namespace + "-velero", true},
	}
	m.addKopia()
	m.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "velero-repo-credentials"},
		Data: map[string][]byte{"repository-password": []byte("static-passw0rd")}})
	m.runAgent()
	m.serve("--uploader-type=kopia", "--features=EnableCSI", "--backup-sync-period=1s")
	e.uploader = m.installVelero(e.veleros.namespace, in).Uploader
	return e
}

// between has one installation back up what the other one restores, and the other way round.
func (e *exchange) between(one, other installation) {
	t := e.t
	t.Helper()
	shop := newShop(one.machine)
	before := shop.seen(one.shop)
	require.Greater(t, len(before), 360)
	one.backsUp("first", one.shop)
	first := one.loadsOf("first")

	other.restores("first", one.shop, one.shop+"-first")
	other.sees(before, shop.seen(one.shop+"-first"))

	shop.change()
	after := shop.seen(one.shop)
	require.NotEqual(t, before, after)
	other.backsUp("second", one.shop)
	second := other.loadsOf("second")
	for _, volume := range shop.volumes {
		t.Logf("%s: %+v, then %+v", volume, first[volume], second[volume])
		require.Greater(t, first[volume].total, int64(3<<20), volume)
		require.Greater(t, second[volume].total, int64(3<<20), volume)
		require.Less(t, second[volume].fresh, int64(100<<10), volume)
		require.NotEqual(t, first[volume].snapshot, second[volume].snapshot)
	}

	require.ElementsMatch(t, append(snapshots(first), snapshots(second)...), e.snapshotsOf(one.shop))
	other.deletes("first")
	require.ElementsMatch(t, snapshots(second), e.snapshotsOf(one.shop))
	e.maintain(one.shop)
	e.maintainByCleat(one.shop)
	one.restores("second", one.shop, one.shop+"-second")
	one.sees(after, shop.seen(one.shop+"-second"))
	one.deletes("second")
	require.Empty(t, e.snapshotsOf(one.shop))
}

func snapshots(all map[string]moved) (ids []string) {
	for _, one := range all {
		ids = append(ids, one.snapshot)
	}
	return ids
}

// snapshotsOf returns the ids of the snapshots in the repository of a namespace.
func (e *exchange) snapshotsOf(namespace string) []string {
	e.t.Helper()
	at := fmt.Sprintf("http://%s:%s@%s/%s/kopia/%s/", e.storage.AccessKey, e.storage.SecretKey,
		strings.TrimPrefix(e.storage.Endpoint, "http://"), e.storage.bucket, namespace)
	out, err := exec.CommandContext(e.t.Context(), e.uploader, "list", at, e.t.TempDir()).Output()
	require.NoError(e.t, err)
	return strings.Fields(string(out))
}

// maintain runs the command of Velero's maintenance job on the repository of a namespace, in the pod of its server.
func (e *exchange) maintain(namespace string) {
	e.t.Helper()
	var list corev1.PodList
	require.NoError(e.t, e.client.List(e.t.Context(), &list, client.InNamespace(e.veleros.namespace),
		client.MatchingLabels{"deploy": "velero"}))
	require.NotEmpty(e.t, list.Items)
	out, err := pods.Exec(e.t.Context(), e.cluster, e.veleros.namespace, list.Items[0].Name, "/velero", "repo-maintenance",
		"--repo-name", namespace, "--repo-type", "kopia", "--backup-storage-location", "default")
	require.NoError(e.t, err, "%s", out)
}

// maintainByCleat has cleat's server maintain the repository of a namespace, which Velero may have made.
func (e *exchange) maintainByCleat(namespace string) {
	e.t.Helper()
	name := namespace + "-objects-kopia"
	began := time.Now().Truncate(time.Second)
	e.makeDue(name)
	of := e.repository(name, "is maintained", func(of *velerov1.BackupRepository) bool {
		recent := of.Status.RecentMaintenance
		return len(recent) > 0 && !recent[len(recent)-1].StartTimestamp.Time.Before(began)
	})
	last := of.Status.RecentMaintenance[len(of.Status.RecentMaintenance)-1]
	require.Equal(e.t, velerov1.BackupRepositoryMaintenanceSucceeded, last.Result, last.Message)
}

// shop is a namespace with volumes of all kinds: an empty one and a claim whose files are backed up from the file
// system, and claims of files and, if the machine has devices, of blocks that are backed up by CSI snapshots.
type shop struct {
	*machine
	app, db *corev1.Pod
	volumes []string
	blocks  bool
}

func newShop(m *machine) *shop {
	m.t.Helper()
	s := &shop{machine: m, volumes: []string{"empty", "claimed", "moved"}, blocks: canMakeDevices(m.t)}
	m.claim("data", corev1.PersistentVolumeFilesystem)
	s.app = treePod("app")
	s.app.Annotations = map[string]string{velerov1.VolumesToBackupAnnotation: "empty,claimed"}
	s.app.Spec.Volumes = []corev1.Volume{
		{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, claimed("data"),
	}
	s.app.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "empty", MountPath: "/empty"},
		{Name: "claimed", MountPath: "/claimed"}}
	m.claim("moved", corev1.PersistentVolumeFilesystem)
	s.db = treePod("db")
	s.db.Spec.Volumes = []corev1.Volume{claimed("moved")}
	s.db.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "claimed", MountPath: "/claimed"}}
	if s.blocks {
		s.volumes = append(s.volumes, "raw")
		m.claim("raw", corev1.PersistentVolumeBlock)
		device := claimed("raw")
		device.Name = "raw"
		s.db.Spec.Volumes = append(s.db.Spec.Volumes, device)
		s.db.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
	}
	m.startPod(s.app)
	m.startPod(s.db)
	m.tree(s.app, "write", "/empty")
	m.tree(s.app, "write", "/claimed")
	m.tree(s.db, "write", "/claimed")
	if s.blocks {
		m.tree(s.db, "fill", "/dev/raw")
	}
	return s
}

func (s *shop) change() {
	s.t.Helper()
	s.tree(s.app, "change", "/empty")
	s.tree(s.app, "change", "/claimed")
	s.tree(s.db, "change", "/claimed")
}

// seen returns what the pods of the shop, which may have been restored into another namespace, see in their volumes.
func (s *shop) seen(namespace string) (all []string) {
	s.t.Helper()
	list := func(name string, dirs ...string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		s.running(pod)
		for _, dir := range dirs {
			all = append(all, keptByBoth(s.tree(pod, "list", dir))...)
		}
		return pod
	}
	list(s.app.Name, "/empty", "/claimed")
	db := list(s.db.Name, "/claimed")
	if s.blocks {
		all = append(all, s.tree(db, "sum", "/dev/raw"))
	}
	return all
}

// keptByBoth returns the lines of a list with what both restore by kopia. Names that are not UTF-8 differ.
func keptByBoth(text string) []string {
	return slices.DeleteFunc(slices.Collect(strings.Lines(pods.KeptByKopia(text))),
		func(line string) bool { return strings.Contains(line, "not UTF-8") })
}

// timeOfOther matches the time of a link or a directory.
var timeOfOther = regexp.MustCompile(`("Mode":"[Ld].*"Modified":)"[^"]*"`)

// asVelero returns lines of seen without the times of links, which Velero restores to the microsecond, and of
// directories, to which Velero gives the newest time of what is in them.
func asVelero(lines []string) (kept []string) {
	for _, line := range lines {
		kept = append(kept, timeOfOther.ReplaceAllString(line, `$1""`))
	}
	return kept
}
