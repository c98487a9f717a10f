package csisnapshots

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// TestContentOfAnotherSnapshotStays drops snapshots of a tenant that name a content in each way there is. Only one that
// names the snapshot, too, is deleted, or changed.
func TestContentOfAnotherSnapshotStays(t *testing.T) {
	t.Parallel()
	named := "named"
	ofTenant := types.NamespacedName{Namespace: "tenant", Name: named}
	bySpec := snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &named}}
	byStatus := &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &named}
	drop := func(vs *snapshotv1.VolumeSnapshot, keep bool) func(*testing.T, Snapshots) error {
		return func(t *testing.T, s Snapshots) error { return s.drop(t.Context(), vs, keep) }
	}
	meta := metav1.ObjectMeta{Namespace: ofTenant.Namespace, Name: named, UID: "of-tenant"}
	const changed, deleted = "changed", "deleted"
	for name, test := range map[string]struct {
		drop func(*testing.T, Snapshots) error
		own  string // what becomes of the content if it is of the snapshot
	}{
		"status":        {drop(&snapshotv1.VolumeSnapshot{ObjectMeta: meta, Status: byStatus}, false), changed},
		"status, kept":  {drop(&snapshotv1.VolumeSnapshot{ObjectMeta: meta, Status: byStatus}, true), deleted},
		"spec":          {drop(&snapshotv1.VolumeSnapshot{ObjectMeta: meta, Spec: bySpec}, false), deleted},
		"spec, kept":    {drop(&snapshotv1.VolumeSnapshot{ObjectMeta: meta, Spec: bySpec}, true), deleted},
		"of a restore":  {func(t *testing.T, s Snapshots) error { return s.DropRestored(t.Context(), ofTenant) }, deleted},
		"not there yet": {drop(&snapshotv1.VolumeSnapshot{ObjectMeta: meta}, true), ""},
	} {
		for _, of := range []corev1.ObjectReference{
			{Namespace: "production", Name: "db", UID: "of-production"},
			{Namespace: ofTenant.Namespace, Name: named, UID: "of-the-one-before"},
			{Namespace: ofTenant.Namespace, Name: named, UID: "of-tenant"},
		} {
			t.Run(name+", "+string(of.UID), func(t *testing.T) {
				t.Parallel()
				content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: named},
					Spec: snapshotv1.VolumeSnapshotContentSpec{VolumeSnapshotRef: of,
						DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain}}
				api := fake.NewSimpleClientset(content, //nolint:staticcheck // it has no other
					&snapshotv1.VolumeSnapshot{ObjectMeta: meta}).SnapshotV1()
				s := Snapshots{api: func() (snapshotclient.SnapshotV1Interface, error) { return api, nil }}
				require.NoError(t, test.drop(t, s))
				_, err := api.VolumeSnapshots(ofTenant.Namespace).Get(t.Context(), named, metav1.GetOptions{})
				require.True(t, apierrors.IsNotFound(err), "%v", err)

				after, err := api.VolumeSnapshotContents().Get(t.Context(), named, metav1.GetOptions{})
				became := ""
				switch {
				case apierrors.IsNotFound(err):
					became = deleted
				case err != nil:
					require.NoError(t, err)
				case after.Spec.DeletionPolicy != content.Spec.DeletionPolicy:
					became = changed
				}
				want := ""
				if of.UID == meta.UID || of.Name == named && name == "of a restore" { // which knows no UID
					want = test.own
				}
				require.Equal(t, want, became)
			})
		}
	}
}

// TestContentsAreRemovedWithTheirMarkOnly has contents with the label of a backup whose VolumeSnapshots do not exist. Only
// the one that an action of the backup has marked is deleted.
func TestContentsAreRemovedWithTheirMarkOnly(t *testing.T) {
	t.Parallel()
	keys := loadkey.New(signing.Fixed(signing.NewKey([]byte("of the installation"))))
	own, err := keys.Of(t.Context(), "Backup", "b")
	require.NoError(t, err)
	foreign, err := keys.Of(t.Context(), "Backup", "c")
	require.NoError(t, err)
	const kind = "VolumeSnapshotContent"
	marks := map[string]string{"own": own.Mark(kind, "own"), "unmarked": "", "copied": own.Mark(kind, "own"),
		"foreign": foreign.Mark(kind, "foreign"), "group": own.Mark("VolumeGroupSnapshotContent", "group")}
	api := fake.NewSimpleClientset().SnapshotV1() //nolint:staticcheck // it has no other
	for name, mark := range marks {
		_, err := api.VolumeSnapshotContents().Create(t.Context(), &snapshotv1.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{velerov1.BackupUIDLabel: "b"},
				Annotations: map[string]string{velerov1.TakenForAnnotation: mark}},
			Spec: snapshotv1.VolumeSnapshotContentSpec{DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
				VolumeSnapshotRef: corev1.ObjectReference{Namespace: "ns", Name: "none"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s := Snapshots{api: func() (snapshotclient.SnapshotV1Interface, error) { return api, nil }, keys: keys}
	require.NoError(t, s.removeUnbound(t.Context(), "b"))
	for name := range marks {
		left, err := api.VolumeSnapshotContents().Get(t.Context(), name, metav1.GetOptions{})
		if name == "own" {
			require.True(t, apierrors.IsNotFound(err))
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, snapshotv1.VolumeSnapshotContentRetain, left.Spec.DeletionPolicy, name)
	}
}
