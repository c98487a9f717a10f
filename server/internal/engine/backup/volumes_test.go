package backup_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// TestActionsThatTakeSnapshotsAreCalledIfTheyAreWanted calls Velero's actions for claims, one of which has the volume
// of the fixture. It requests more space than the volume has, so that the cluster does not bind it.
func TestActionsThatTakeSnapshotsAreCalledIfTheyAreWanted(t *testing.T) {
	t.Parallel()
	config := fixtureWorld(t)
	const ns = "claims-of-actions"
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", ns, nil, ""})
	const body = `"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","resources":{"requests":{"storage":"5Gi"}}`
	create(t.Context(), t, config, fixtureObject{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, "bound",
		labelSet{"tier": "db"}, body + `,"volumeName":"fixture-pv"}`})
	create(t.Context(), t, config, fixtureObject{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, "pending",
		nil, body + `,"volumeName":"no-such-volume"}`})
	const bound, pending = ns + "/bound", ns + "/pending"
	for name, tt := range map[string]struct {
		rules       string
		snapshots   bool
		csi, sphere []string
	}{
		"wanted":     {snapshots: true, csi: []string{bound, pending}, sphere: []string{bound, pending}},
		"not wanted": {csi: []string{pending}, sphere: []string{bound, pending}},
		"wanted by a rule": {rules: "{conditions: {pvcLabels: {tier: db}}, action: {type: snapshot}}",
			csi: []string{bound, pending}, sphere: []string{bound, pending}},
		"skipped by a rule": {rules: "{conditions: {volumeTypes: [hostPath]}, action: {type: skip}}", snapshots: true,
			csi: []string{pending}, sphere: []string{pending}},
		"all are skipped": {rules: "{action: {type: skip}}", snapshots: true},
		"files by a rule": {rules: "{conditions: {pvcLabels: {tier: db}}, action: {type: fs-backup}}", snapshots: true,
			csi: []string{pending}, sphere: []string{bound, pending}},
		"no rule applies": {rules: "{conditions: {volumeTypes: [nfs]}, action: {type: skip}}", snapshots: true,
			csi: []string{bound, pending}, sphere: []string{bound, pending}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named := func(name string) *testAction {
				return &testAction{name: name, selector: framework.ResourceSelector{IncludedResources: []string{"pvc"}},
					execute: func(item []byte) (*backupitemaction.Result, error) { return &backupitemaction.Result{Item: item}, nil }}
			}
			csi, sphere, other := named("velero.io/csi-pvc-backupper"), named("velero.io/vsphere-pvc-backupper"),
				named("example.com/other")
			policy, err := resourcepolicy.Parse(&corev1.ConfigMap{Data: map[string]string{"p": "version: v1\nvolumePolicies: [" +
				tt.rules + "]"}})
			require.NoError(t, err)
			deps := depsFor(t, config)
			deps.CSI = true
			b := take(t.Context(), t, deps, backup.Request{
				Actions: []backupitemaction.Action{csi, sphere, other}, Policy: policy,
				Backup: newBackup(func(s *spec) { s.IncludedNamespaces, s.SnapshotVolumes = []string{ns}, &tt.snapshots }),
			})
			require.Zero(t, b.Errors, b.Results.Errors)
			require.ElementsMatch(t, tt.csi, csi.calls)
			require.ElementsMatch(t, tt.sphere, sphere.calls)
			require.ElementsMatch(t, []string{bound, pending}, other.calls)
		})
	}
}

// TestPodsThatAreNotSelectedDoNotChooseHowVolumesAreBackedUp has two pods with one volume. One of them requests a file
// system backup.
func TestPodsThatAreNotSelectedDoNotChooseHowVolumesAreBackedUp(t *testing.T) { //nolint:paralleltest // the other tests count the volumes of the cluster
	config := fixtureWorld(t)
	const ns = "pods-of-one-volume"
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", ns, nil, ""})
	volume := fixtureObject{"persistentvolumes", "v1", "PersistentVolume", "", ns, nil,
		`"spec":{"accessModes":["ReadWriteMany"],"capacity":{"storage":"1Gi"},"storageClassName":"none","csi":{"driver":"d","volumeHandle":"h"},"claimRef":{"namespace":"` + ns + `","name":"shared"}}`}
	create(t.Context(), t, config, volume)
	t.Cleanup(func() {
		remove(context.Background(), t, config, volume)
		_, err := resourceClient(t, config, volume).Patch(context.Background(), volume.name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, client.IgnoreNotFound(err))
	})
	create(t.Context(), t, config, fixtureObject{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, "shared",
		nil,
		`"spec":{"accessModes":["ReadWriteMany"],"storageClassName":"other","volumeName":"` + ns +
			`","resources":{"requests":{"storage":"5Gi"}}}`})
	for name, annotations := range map[string]string{"server": "",
		"copier": `"annotations":{"backup.velero.io/backup-volumes":"data"}`} {
		create(t.Context(), t, config, fixtureObject{"pods", "v1", "Pod", ns, name, labelSet{"app": name}, `"metadata":{` +
			annotations + `},"spec":{"automountServiceAccountToken":false,
			"containers":[{"name":"a","image":"a"}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"shared"}}]}`})
	}
	for name, tt := range map[string]struct { //nolint:paralleltest // as above
		selector  *metav1.LabelSelector
		snapshots []string
	}{
		"selected":     {nil, nil},
		"not selected": {&metav1.LabelSelector{MatchLabels: labelSet{"app": "server"}}, []string{ns + "/shared"}},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			csi := &testAction{name: "velero.io/csi-pvc-backupper",
				selector: framework.ResourceSelector{IncludedResources: []string{"pvc"}},
				execute:  func(item []byte) (*backupitemaction.Result, error) { return &backupitemaction.Result{Item: item}, nil }}
			deps := depsFor(t, config)
			deps.CSI = true
			b := take(t.Context(), t, deps, backup.Request{
				Actions: []backupitemaction.Action{csi, requesting(nil, id("", "persistentvolumeclaims", ns, "shared"))},
				Backup: newBackup(func(s *spec) {
					s.IncludedNamespaces, s.LabelSelector, s.SnapshotVolumes = []string{ns}, tt.selector, new(true)
				}),
			})
			require.Zero(t, b.Errors, b.Results.Errors)
			require.ElementsMatch(t, tt.snapshots, csi.calls)
		})
	}
}

// TestVolumesOfOtherClaimsAreNotBackedUp has claims that name volumes, and actions that request the volumes for them. A
// volume that is bound to another claim is not in the backup.
func TestVolumesOfOtherClaimsAreNotBackedUp(t *testing.T) { //nolint:paralleltest // the other tests count the volumes of the cluster
	config := fixtureWorld(t)
	const ns = "claims-that-name-volumes"
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", ns, nil, ""})
	for name, ref := range map[string]string{
		"own": ns + `","name":"own`, "of-another": "production" + `","name":"of-another`, "of-a-neighbour": ns + `","name":"own`,
		"of-one-before": ns + `","name":"of-one-before","uid":"of-one-before`,
	} {
		volume := fixtureObject{"persistentvolumes", "v1", "PersistentVolume", "", ns + "-" + name, nil,
			`"spec":{"accessModes":["ReadWriteMany"],"capacity":{"storage":"1Gi"},"storageClassName":"none","csi":{"driver":"d","volumeHandle":"` +
				name + `"},"claimRef":{"namespace":"` + ref + `"}}`}
		create(t.Context(), t, config, volume)
		t.Cleanup(func() {
			remove(context.Background(), t, config, volume)
			_, err := resourceClient(t, config, volume).Patch(context.Background(), volume.name, types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			require.NoError(t, client.IgnoreNotFound(err))
		})
		create(t.Context(), t, config, fixtureObject{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, name, nil,
			`"spec":{"accessModes":["ReadWriteMany"],"storageClassName":"other","volumeName":"` + volume.name +
				`","resources":{"requests":{"storage":"5Gi"}}}`})
	}
	b := take(t.Context(), t, depsFor(t, config), backup.Request{
		Actions: []backupitemaction.Action{&testAction{name: "example.com/volumes",
			selector: framework.ResourceSelector{IncludedResources: []string{"pvc"}},
			execute: func(raw []byte) (*backupitemaction.Result, error) {
				var claim corev1.PersistentVolumeClaim
				err := json.Unmarshal(raw, &claim)
				return &backupitemaction.Result{Item: raw,
					AdditionalItems: []framework.ResourceIdentifier{id("", "persistentvolumes", "", claim.Spec.VolumeName)}}, err
			}}},
		Backup: newBackup(func(s *spec) { s.IncludedNamespaces = []string{ns} }),
	})
	require.Zero(t, b.Errors, b.Results.Errors)
	var volumes []string
	for id := range b.objects {
		if strings.HasPrefix(id, "persistentvolumes:") {
			volumes = append(volumes, id)
		}
	}
	require.Equal(t, []string{"persistentvolumes:" + ns + "-own"}, volumes)
	require.Len(t, b.Results.Warnings.Cluster, 3)
}
