package nodeagent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptVolumes_Existing restores volumes over pods and claims that exist. Their data is left, and a warning says
// so of each volume, in a dry run as well. A claim keeps its size, although the snapshots of its driver are larger.
func TestAcceptVolumes_Existing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.runAgent()
	m.serve("--features=EnableCSI")
	m.claimOf("data", nil)
	app := m.noting("app", "data")
	app.Annotations = map[string]string{velerov1.VolumesToBackupAnnotation: "notes"}
	m.startPod(app)
	m.fill(app, "")

	back := func(name string, spec velerov1.BackupSpec) {
		t.Helper()
		spec.IncludedNamespaces = []string{m.shop}
		b := m.backUp(name, spec)
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, m.results("backups", name))
	}
	back("files", velerov1.BackupSpec{DefaultVolumesToFsBackup: new(true)})
	back("snapshots", velerov1.BackupSpec{})
	back("moved", velerov1.BackupSpec{SnapshotMoveData: new(true)})
	m.fill(app, "echo changed > ledger")

	notes := "the data of volume notes of pod " + m.shop + "/app is not restored: pods/" + m.shop + "/app exists"
	claim := "the data of persistent volume claim " + m.shop + "/data is not restored: "
	for _, row := range []struct {
		name, backup string
		change       func(*velerov1.RestoreSpec)
		warnings     []string
	}{
		{"over-files", "files", nil, []string{notes, claim + "pods/" + m.shop + "/app exists"}},
		{"over-snapshots", "snapshots", nil,
			[]string{notes, claim + "persistentvolumeclaims/" + m.shop + "/data exists"}},
		{"over-snapshots-updated", "snapshots",
			func(spec *velerov1.RestoreSpec) { spec.ExistingResourcePolicy = velerov1.PolicyTypeUpdate },
			[]string{notes, claim + "persistentvolumeclaims/" + m.shop + "/data exists"}},
		{"over-moved", "moved", nil, []string{notes, claim + "persistentvolumeclaims/" + m.shop + "/data exists"}},
		{"over-files-of-no-pod", "files",
			func(spec *velerov1.RestoreSpec) { spec.ExcludedResources = []string{"pods"} },
			[]string{claim + "the data is in file system backup"}},
		{"over-snapshots-unwanted", "snapshots",
			func(spec *velerov1.RestoreSpec) { spec.RestorePVs = new(false) }, []string{notes}},
	} {
		r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: row.name},
			Spec: velerov1.RestoreSpec{BackupName: row.backup}}
		if row.change != nil {
			row.change(&r.Spec)
		}
		m.create(r)
		require.Equal(t, velerov1.RestorePhaseCompleted, m.restored(r).Status.Phase, m.results("restores", r.Name))
		found := m.results("restores", r.Name)
		for _, warning := range row.warnings {
			require.Contains(t, found, warning, row.name)
		}
		require.Equal(t, len(row.warnings), r.Status.Warnings, "%s: %s", row.name, found)
	}
	var live corev1.PersistentVolumeClaim
	require.NoError(t, m.client.Get(t.Context(), client.ObjectKey{Namespace: m.shop, Name: "data"}, &live))
	require.Equal(t, "16Mi", live.Spec.Resources.Requests.Storage().String())
	for _, backup := range []string{"files", "snapshots"} {
		out, err := m.cleat("restore", "create", "dry-"+backup, "--from-backup", backup, "--dry-run", "--details")
		require.NoError(t, err, out)
		require.Contains(t, out, notes)
		require.Contains(t, out, claim)
	}

	// The pod does not exist, and its claim does.
	require.NoError(t, m.client.Delete(t.Context(), app))
	m.awaitUnmounted(app)
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "into"}, Spec: velerov1.RestoreSpec{BackupName: "files"}}
	m.create(r)
	require.Equal(t, velerov1.RestorePhaseCompleted, m.restored(r).Status.Phase, m.results("restores", r.Name))
	require.Contains(t, m.results("restores", r.Name), "the data of persistent volume claim "+m.shop+
		"/data is written into the volume that it has in the cluster")
	m.running(app)
	content, err := os.ReadFile(filepath.Join(m.dir(m.shop), "ledger"))
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(content))
}
