package volumes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/site"
)

// groupLabel is the label of a group if neither the server nor the backup names one.
const groupLabel = "velero.io/volume-group"

// groupClass creates a VolumeGroupSnapshotClass, the chosen one or one with a name of its own.
func (v *volumeSite) groupClass(name string, parameters map[string]string) string {
	v.T.Helper()
	class := &groupsnapshotv1.VolumeGroupSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: csidriver.Name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, Parameters: parameters,
	}
	if name == "chosen" {
		class.Labels = map[string]string{"velero.io/csi-volumegroupsnapshot-class": "true"}
	} else {
		class.Name = v.Shop + "-" + name
	}
	v.Eventually("the class is created", func(ctx context.Context) (bool, error) {
		return true, client.IgnoreAlreadyExists(v.Client.Create(ctx, class))
	})
	return class.Name
}

// grouped creates a claim with a label, and an annotation that names a VolumeGroupSnapshotClass unless that is "".
func (v *volumeSite) grouped(name, label, value, class string) {
	v.T.Helper()
	v.claim(name, "")
	v.label(name, label, value, class)
}

func (v *volumeSite) label(name, label, value, class string) {
	v.T.Helper()
	var claim corev1.PersistentVolumeClaim
	require.NoError(v.T, v.Client.Get(v.T.Context(), client.ObjectKey{Namespace: v.Shop, Name: name}, &claim))
	before := claim.DeepCopy()
	metav1.SetMetaDataLabel(&claim.ObjectMeta, label, value)
	if class != "" {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "velero.io/csi-volume-group-snapshot-class", class)
	}
	require.NoError(v.T, v.Client.Patch(v.T.Context(), &claim, client.MergeFrom(before)))
}

// leavesNoGroups waits until the cluster has no objects of snapshots and groups of the shop.
func (v *volumeSite) leavesNoGroups() {
	v.T.Helper()
	v.leavesNothing()
	v.Eventually("no objects of groups are left", func(ctx context.Context) (bool, error) {
		var groups groupsnapshotv1.VolumeGroupSnapshotList
		var contents groupsnapshotv1.VolumeGroupSnapshotContentList
		if err := v.Client.List(ctx, &groups, client.InNamespace(v.Shop)); err != nil {
			return false, err
		}
		err := v.Client.List(ctx, &contents)
		return len(groups.Items) == 0 && !slices.ContainsFunc(contents.Items,
			func(c groupsnapshotv1.VolumeGroupSnapshotContent) bool {
				return c.Spec.VolumeGroupSnapshotRef.Namespace == v.Shop
			}), err
	})
}

// writeSteadily writes increasing numbers into the volumes of claims, one number into all of them at a time, until it
// is stopped.
func (v *volumeSite) writeSteadily(claims ...string) (stop func()) {
	v.T.Helper()
	var ids []string
	for _, claim := range claims {
		ids = append(ids, v.volume(v.Shop, claim).Spec.CSI.VolumeHandle)
	}
	ctx, cancel := context.WithCancel(v.T.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := driver.Write("data", strconv.Itoa(n), ids...); err != nil {
				v.T.Errorf("write number %d: %v", n, err)
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	return func() { cancel(); writer.Wait() }
}

// TestAcceptVolumes_Groups takes snapshots of claims that belong together by group snapshots, with the real controllers
// of snapshots, and restores and deletes them one by one.
func TestAcceptVolumes_Groups(t *testing.T) {
	t.Parallel()
	t.Run("there and back", groupsThereAndBack)
	t.Run("groups that fail", groupsThatFail)
	t.Run("the server is killed", groupsOfKilledServers)
	t.Run("clusters with older versions", groupsOfOlderVersions)
}

func groupsThereAndBack(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.groupClass("chosen", nil)
	for _, name := range []string{"data", "wal", "index"} {
		v.grouped(name, groupLabel, "db", "")
	}
	v.claim("alone", "")
	stop := v.writeSteadily("data", "wal", "index")
	into := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.Shop + "-copy"}}
	require.NoError(t, v.Client.Create(t.Context(), into))
	v.Must("install", "--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces",
		v.Shop+","+v.Shop+"-copy", "--rbac-all-volumes", "--features", "EnableCSI")
	v.ServerKubeconfig = v.KubeconfigOf("velero")
	server := v.Serve("--features", "EnableCSI", "--volume-group-snapshot-label-key", "example.com/none")
	v.Available()

	v.begin("b", func(b *velerov1.Backup) { b.Spec.VolumeGroupSnapshotLabelKey = groupLabel })
	b := v.AwaitEnd("b")
	stop()
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Equal(t, [4]int{4, 4, 4, 0}, [4]int{b.Status.CSIVolumeSnapshotsAttempted,
		b.Status.CSIVolumeSnapshotsCompleted, b.Status.BackupItemOperationsCompleted, b.Status.Warnings}, v.errors("b"))
	taken := v.taken()
	require.Len(t, taken, 4)
	groups, err := driver.GroupsOf(taken)
	require.NoError(t, err)
	require.Len(t, groups, 2, "one group, and one snapshot without a group: %v", groups)
	v.leavesNoGroups()

	// In the backup, they are like single snapshots, with the handle of the group in addition.
	for _, vs := range site.ReadJSON[[]snapshotv1.VolumeSnapshot](t, v.Site, "backups", "b",
		"b-csi-volumesnapshots.json.gz") {
		claim := *vs.Spec.Source.PersistentVolumeClaimName
		require.Regexp(t, `^velero-`+claim+`-.{5}$`, vs.Name)
		want := map[string]string{"app": claim, "velero.io/backup-name": "b", "velero.io/backup-uid": string(b.UID)}
		if claim == "alone" {
			require.NotContains(t, vs.Annotations, "velero.io/csi-volumegroupsnapshot-handle")
		} else {
			want[groupLabel] = "db"
			require.Contains(t, groups, vs.Annotations["velero.io/csi-volumegroupsnapshot-handle"])
		}
		require.Equal(t, want, vs.Labels)
	}
	for _, info := range v.infos("b") {
		require.Equal(t, []any{volumes.CSI, volumes.Succeeded, info.PVCName != "alone"},
			[]any{info.BackupMethod, info.Result, info.CSI.GroupHandle != ""}, info.PVCName)
		require.Contains(t, taken, info.CSI.SnapshotHandle)
	}

	// The volumes have the bytes of one moment.
	r, text := v.restore("copy", "b", v.Shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	number := v.content(v.Shop+"-copy", "data")
	require.NotEmpty(t, number)
	require.Equal(t, []string{number, number}, []string{v.content(v.Shop+"-copy", "wal"),
		v.content(v.Shop+"-copy", "index")})
	require.Equal(t, "before", v.content(v.Shop+"-copy", "alone"))
	v.leavesNoGroups()

	// The snapshot of a claim whose data the backup does not contain is not kept.
	require.NoError(t, v.Client.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "rules"}, Data: map[string]string{
			"rules": "version: v1\nvolumePolicies:\n- {conditions: {pvcLabels: {app: index}}, action: {type: skip}}\n",
		}}))
	v.begin("less", func(b *velerov1.Backup) {
		b.Spec.VolumeGroupSnapshotLabelKey = groupLabel
		b.Spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "rules"}
	})
	b = v.AwaitEnd("less")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("less"))
	require.Equal(t, 3, b.Status.CSIVolumeSnapshotsCompleted)
	v.leavesNoGroups()
	v.Eventually("the snapshot is deleted", func(context.Context) (bool, error) { return len(v.taken()) == 4+3, nil })

	for _, name := range []string{"less", "b"} {
		v.Must("backup", "delete", name, "--confirm", "--wait")
	}
	require.Empty(t, v.taken())
	v.leavesNoGroups()
	site.RequireRights(t, server.Log)
}

// groupsThatFail shows that a group is taken as a whole or not at all. Errors name its claims.
func groupsThatFail(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	missing := filepath.Join(t.TempDir(), "missing")
	const label = "example.com/tier"
	for group, class := range map[string]string{
		"unmade":   v.groupClass("unmade", map[string]string{csidriver.MadeWith: missing}),
		"without":  v.groupClass("without", map[string]string{csidriver.WithoutGroups: "true"}),
		"lost":     "none",
		"mixed":    "",
		"unbound":  "",
		"disagree": "one",
	} {
		v.grouped(group+"-a", label, group, class)
		if group == "disagree" {
			class = "two"
		}
		if group != "mixed" {
			v.grouped(group+"-b", label, group, class)
		}
	}
	v.BoundClaim(v.Shop+"-mixed", v.Shop, "mixed-b", "Retain")
	v.label("mixed-b", label, "mixed", "")
	none := "none"
	require.NoError(t, v.Client.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Shop, Name: "unbound-c", Labels: map[string]string{label: "unbound"}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			StorageClassName: &none, Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{"storage": *v.volume(v.Shop, "lost-a").Spec.Capacity.Storage()}}},
	}))
	v.claim("good", "")
	v.Serve("--features", "EnableCSI", "--volume-group-snapshot-label-key", label)
	v.Available()

	v.begin("b", func(b *velerov1.Backup) { b.Spec.CSISnapshotTimeout.Duration = 20 * time.Second })
	b := v.AwaitEnd("b")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Equal(t, [2]int{1, 12}, [2]int{b.Status.CSIVolumeSnapshotsCompleted, b.Status.Errors}, v.errors("b"))
	for group, want := range map[string]string{
		"unmade": `VolumeGroupSnapshot velero-group-.* has no snapshot handles after 20s: .*there is no file missing`,
		"without": `CSI driver ` + csidriver.Name + ` takes no group snapshots \(.*this driver has no group snapshots.*\); ` +
			`take single snapshots by removing the label`,
		"lost": `annotation velero.io/csi-volume-group-snapshot-class of the claim names VolumeGroupSnapshotClass none, ` +
			`which does not exist; want one for driver ` + csidriver.Name,
		"mixed": `a group is of bound claims with volumes of one CSI driver, but CSI driver ` + csidriver.Name +
			` has the volumes of mixed-a, CSI driver x.example.com has the volumes of mixed-b; remove the label`,
		"unbound":  `a group is of bound claims .* but unbound-c is not bound; remove the label`,
		"disagree": `their annotations velero.io/csi-volume-group-snapshot-class name different classes: one and two`,
	} {
		claims := group + "-a, " + group + "-b"
		if group == "unbound" {
			claims += ", unbound-c"
		}
		require.Regexp(t, `no group snapshot was taken of volume claims `+claims+` in namespace `+v.Shop+
			`, which have the label `+label+`=`+group+`: `+want, v.errors("b"))
	}
	v.leavesNoGroups()
	v.Eventually("only the single snapshot is left",
		func(context.Context) (bool, error) { return len(v.taken()) == 1, nil })
}

// groupsOfKilledServers kills the server at each write with which it takes a group apart. The next server takes the
// group again, and nothing of the first one is left.
func groupsOfKilledServers(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.groupClass("chosen", nil)
	v.grouped("data", groupLabel, "db", "")
	v.grouped("wal", groupLabel, "db", "")
	g := &site.Gate{}
	v.ServerKubeconfig, _ = g.Behind(t, v.Cluster)
	server := v.Serve("--features", "EnableCSI")
	v.Available()
	ofGroups := func(r *http.Request) bool {
		return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/volumegroupsnapshot") ||
			r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/volumesnapshot") ||
			r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/volumesnapshotcontents/snapcontent-")
	}
	var kept int
	writes := site.EveryWrite(func(n int, when site.Moment) bool {
		name := fmt.Sprintf("%s-%d", when, n)
		hit := g.Arm(n, when, ofGroups)
		v.begin(name, nil)
		held := ""
		v.Eventually("a write is held or the backup has ended", func(ctx context.Context) (bool, error) {
			var b velerov1.Backup
			err := v.Client.Get(ctx, v.Key(name), &b)
			select {
			case held = <-hit:
				return true, nil
			default:
				return b.Status.Phase.Terminal(), err
			}
		})
		if held != "" {
			server.Kill()
			g.Disarm()
			t.Logf("killed %s write %d: %s", when, n, held)
			server = v.Serve("--features", "EnableCSI")
		}
		b := v.AwaitEnd(name)
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors(name))
		v.leavesNoGroups()
		kept += 2
		v.Eventually("two snapshots are left", func(context.Context) (bool, error) { return len(v.taken()) == kept, nil })
		g.Disarm()
		return held != ""
	})
	require.Equal(t, 10, writes)
}

// groupsOfOlderVersions takes groups in clusters that say that they serve one of the versions before v1 only.
func groupsOfOlderVersions(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.groupClass("chosen", nil)
	v.grouped("data", groupLabel, "db", "")
	v.grouped("wal", groupLabel, "db", "")
	const api = "/apis/" + groupsnapshotv1.GroupName
	var mu sync.Mutex
	var served string
	writes := map[string]int{} // by version
	g := &site.Gate{Answer: func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		below, of := strings.CutPrefix(r.URL.Path, api)
		if version, _, is := strings.Cut(strings.TrimPrefix(below, "/"), "/"); of && is && r.Method != http.MethodGet {
			writes[version]++
		}
		if r.URL.Path != api {
			return false
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: groupsnapshotv1.GroupName + "/" + served, Version: served}
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(&metav1.APIGroup{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: groupsnapshotv1.GroupName,
			Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}) == nil
	}}
	v.ServerKubeconfig, _ = g.Behind(t, v.Cluster)
	v.Serve("--features", "EnableCSI")
	v.Available()
	for i, version := range []string{"v1beta1", "v1beta2"} {
		mu.Lock()
		served = version
		clear(writes)
		mu.Unlock()
		v.begin(version, nil)
		b := v.AwaitEnd(version)
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors(version))
		v.leavesNoGroups()
		v.Eventually("two more snapshots are left",
			func(context.Context) (bool, error) { return len(v.taken()) == 2*(i+1), nil })
		mu.Lock()
		require.Positive(t, writes[version])
		require.Len(t, writes, 1, writes)
		mu.Unlock()
	}
}
