package volumes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/site"
)

// policy creates a ConfigMap with rules for volumes, and returns the reference to it.
func (d *disks) policy(name, rules string) *velerov1.TypedLocalObjectReference {
	d.T.Helper()
	require.NoError(d.T, d.Client.Create(d.T.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name}, Data: map[string]string{
			"policy.yaml": "version: v1\nvolumePolicies:\n" + rules,
		},
	}))
	return &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: name}
}

// of returns the claims whose volumes have a snapshot, and the claims with another reason, each as one text.
func (d *disks) of(backup string) (snapshots string, skipped map[string]string) {
	d.T.Helper()
	_, infos, _ := d.stored(backup)
	var taken []string
	skipped = map[string]string{}
	for _, info := range infos {
		if info.BackupMethod == volumes.Native {
			taken = append(taken, info.PVCName)
			continue
		}
		require.True(d.T, info.Skipped)
		skipped[info.SkippedReason] = strings.TrimSpace(skipped[info.SkippedReason] + " " + info.PVCName)
	}
	return strings.Join(taken, " "), skipped
}

// Reasons in volumeinfo, which are Velero's except for the last one.
const (
	ruledOut     = "volumeSnapshot: not satisfy the criteria for VolumePolicy or the legacy snapshot way;"
	noneKnows    = "volumeSnapshot: no applicable volumesnapshotter found;"
	filesMissing = "podvolume: no running pod in the backup that mounts it could be asked for its files;"
)

// TestAcceptVolumes_Policies backs up volumes of several kinds under volume policies. Each row is a backup with a
// rule that skips the volumes to which its conditions apply.
func TestAcceptVolumes_Policies(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(0)
	d := newDisks(s)
	size := func(pv *corev1.PersistentVolume, size string) {
		pv.Spec.Capacity = corev1.ResourceList{"storage": resource.MustParse(size)}
	}
	nfs := func(pv *corev1.PersistentVolume, server, path string) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: server,
			Path: path}}
	}
	for _, one := range []struct {
		name   string
		volume func(*corev1.PersistentVolume)
		claim  func(*corev1.PersistentVolumeClaim)
	}{
		{"a", func(*corev1.PersistentVolume) {},
			func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"tier": "db"} }},
		{"b", func(pv *corev1.PersistentVolume) {
			size(pv, "5Gi")
			pv.Spec.StorageClassName, pv.Spec.CSI.VolumeAttributes = "fast", map[string]string{"type": "ssd", "more": "x"}
		}, func(c *corev1.PersistentVolumeClaim) {
			class := "fast"
			c.Labels, c.Spec.StorageClassName = map[string]string{"tier": "db", "env": "prod"}, &class
		}},
		{"c", func(pv *corev1.PersistentVolume) {
			size(pv, "10Gi")
			nfs(pv, "s1", "/a")
			pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteMany", "ReadWriteOnce"}
		}, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteMany", "ReadWriteOnce"}
		}},
		{"d", func(pv *corev1.PersistentVolume) { size(pv, "20Gi"); nfs(pv, "s2", "/b") }, nil},
		{"e", func(pv *corev1.PersistentVolume) {
			size(pv, "2Gi")
			pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
		}, nil},
		{"f", func(pv *corev1.PersistentVolume) {
			size(pv, "50Gi")
			mode := corev1.PersistentVolumeBlock
			pv.Spec.CSI.Driver, pv.Spec.VolumeMode = "none.example.com", &mode
		}, func(c *corev1.PersistentVolumeClaim) {
			mode := corev1.PersistentVolumeBlock
			c.Spec.VolumeMode = &mode
		}},
	} {
		d.claimLike(one.name, one.volume, one.claim)
	}
	s.Serve(d.args...)
	s.Available()
	for i, row := range []struct{ conditions, applies string }{
		{"", "a b c d e f"},
		{`capacity: "5Gi,20Gi"`, "b c d"}, {`capacity: "10Gi,"`, "c d f"}, {`capacity: ",5Gi"`, "a b e"},
		{`capacity: "0, 2Gi"`, "a e"},
		{`capacity: ","`, "a b c d e f"}, {`capacity: "51Gi,"`, ""},
		{"storageClass: [fast]", "b"}, {"storageClass: [slow, fast]", "b"}, {"storageClass: [slow]", ""}, {"storageClass: []",
			"a b c d e f"},
		{"nfs: {}", "c d"}, {"nfs: {server: s1}", "c"}, {"nfs: {path: /b}", "d"}, {"nfs: {server: s1, path: /a}", "c"},
		{"nfs: {server: s1, path: /b}", ""},
		{"csi: {}", "a b f"}, {"csi: {driver: disks.example.com}", "a b"}, {"csi: {driver: none.example.com}", "f"},
		{"csi: {driver: other}", ""},
		{"csi: {driver: disks.example.com, volumeAttributes: {type: ssd}}", "b"},
		{"csi: {driver: disks.example.com, volumeAttributes: {type: hdd}}", ""},
		{"volumeTypes: [nfs]", "c d"}, {"volumeTypes: [hostPath, csi]", "a b e f"}, {"volumeTypes: [emptyDir, storageOS]",
			""},
		{"pvcLabels: {tier: db}", "a b"}, {"pvcLabels: {tier: db, env: prod}", "b"}, {"pvcLabels: {tier: web}", ""},
		{"pvcPhase: [Bound, Lost]", "a b c d e f"}, {"pvcPhase: [Pending]", ""},
		{"pvcVolumeMode: Block", "f"}, {"pvcVolumeMode: Filesystem", "a b c d e"},
		{"pvcAccessModes: [ReadWriteMany, ReadWriteOnce]", "c"}, {"pvcAccessModes: [ReadWriteOnce]", "a b d e f"},
		{"pvcAccessModes: [ReadWriteMany]", ""},
		{`csi: {}, capacity: "2Gi,", pvcLabels: {tier: db}`, "b"}, {`nfs: {}, volumeTypes: [csi]`, ""},
	} {
		name := fmt.Sprintf("row-%d", i)
		policy := d.policy(name, fmt.Sprintf("- {conditions: {%s}, action: {type: skip}}\n", row.conditions))
		b := d.backUp(name, func(spec *velerov1.BackupSpec) { spec.ResourcePolicy = policy })
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %v", row.conditions, b.Status.ValidationErrors)
		snapshots, skipped := d.of(name)
		require.Equal(t, row.applies, skipped[ruledOut], row.conditions)
		for _, known := range []string{"a", "b"} {
			require.Equal(t, !strings.Contains(row.applies, known), strings.Contains(snapshots, known), "%s: %s", row.conditions,
				snapshots)
		}
	}

	no, yes := false, true
	for name, tt := range map[string]struct {
		rules             string
		change            func(*velerov1.BackupSpec)
		snapshots         string
		ruledOut, unknown string
		files             string
		warns             string
	}{
		"first-counts": {
			rules: "- {conditions: {pvcLabels: {env: prod}}, action: {type: snapshot}}\n- {conditions: {csi: {}}, action: " +
				"{type: skip}}\n- {action: {type: custom, parameters: {by: me}}}\n",
			snapshots: "b", ruledOut: "a c d e f",
		},
		"snapshot-against-the-spec": {
			rules:  "- {conditions: {pvcLabels: {env: prod}}, action: {type: snapshot}}\n",
			change: func(spec *velerov1.BackupSpec) { spec.SnapshotVolumes = &no }, snapshots: "b", ruledOut: "a c d e f",
		},
		"fs-backup": {
			rules:     "- {conditions: {volumeTypes: [nfs, csi], pvcAccessModes: [ReadWriteOnce]}, action: {type: fs-backup}}\n",
			snapshots: "", files: "a b d f", unknown: "c e", warns: "the data of 6 persistent volumes is not backed up",
		},
		"fs-backup-by-default": {
			rules:  "- {conditions: {nfs: {}}, action: {type: skip}}\n",
			change: func(spec *velerov1.BackupSpec) { spec.DefaultVolumesToFsBackup = &yes }, snapshots: "a b", ruledOut: "c d",
			unknown: "e f",
			warns:   "the data of 2 persistent volumes is not backed up",
		},
	} {
		policy := d.policy(name, tt.rules)
		b := d.backUp(name, func(spec *velerov1.BackupSpec) {
			spec.ResourcePolicy = policy
			if tt.change != nil {
				tt.change(spec)
			}
		})
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, name)
		snapshots, skipped := d.of(name)
		require.Equal(t, []string{tt.snapshots, tt.ruledOut, tt.unknown, tt.files},
			[]string{snapshots, skipped[ruledOut], skipped[noneKnows], skipped[filesMissing]}, name)
		require.Equal(t, tt.warns != "", b.Status.Warnings > 0, name)
		require.Contains(t, s.Must("backup", "describe", name), tt.warns)
	}
}

// TestAcceptVolumes_PoliciesOfAllBackups applies the rules of --global-backup-volume-policies-configmap after
// those of the backup.
func TestAcceptVolumes_PoliciesOfAllBackups(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(0)
	d := newDisks(s)
	d.claim("a")
	d.claim("b")
	d.policy("global", "- {action: {type: skip}}\n")
	own := d.policy("own", `- {conditions: {capacity: "1Gi,", pvcLabels: {}}, action: {type: snapshot}}`+"\n")
	s.Serve(append(d.args, "--global-backup-volume-policies-configmap", "global")...)
	s.Available()
	d.backUp("all", nil)
	snapshots, skipped := d.of("all")
	require.Equal(t, []string{"", "a b"}, []string{snapshots, skipped[ruledOut]})
	d.backUp("one", func(spec *velerov1.BackupSpec) { spec.ResourcePolicy = own })
	snapshots, _ = d.of("one")
	require.Equal(t, "a b", snapshots)
}
