package backups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
)

func TestDefaultsAreWrittenIntoTheSpec(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	hidden := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hidden-",
		Labels: map[string]string{velerov1.ExcludeFromBackupLabel: "true"}}}
	vsl := &velerov1.VolumeSnapshotLocation{ObjectMeta: metav1.ObjectMeta{Name: "only"},
		Spec: velerov1.VolumeSnapshotLocationSpec{Provider: "example.io/snap"}}
	marked := controllertest.NewLocation("marked", func(l *velerov1.BackupStorageLocation) { l.Spec.Default = true })
	c.Add(t, hidden, vsl, marked, controllertest.NewLocation("default"))

	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
		b.Namespace = c.Namespace
		b.Spec.DefaultVolumesToRestic = new(true) //nolint:staticcheck // deprecated, and still in objects that old clients make
	})
	require.NoError(t, newBackups(c).describeCluster(t.Context(), b))
	found, err := newBackups(c).prepare(t.Context(), b)
	require.NoError(t, err)
	require.Empty(t, b.Status.ValidationErrors)
	require.Equal(t, "marked", found.location.Name)

	require.Equal(t, 720*time.Hour, b.Spec.TTL.Duration)
	require.Equal(t, 4*time.Hour, b.Spec.ItemOperationTimeout.Duration)
	require.Equal(t, 10*time.Minute, b.Spec.CSISnapshotTimeout.Duration)
	require.Equal(t, "velero.io/volume-group", b.Spec.VolumeGroupSnapshotLabelKey)
	require.Equal(t, "marked", b.Spec.StorageLocation)
	require.Equal(t, []string{"only"}, b.Spec.VolumeSnapshotLocations)
	require.Equal(t, []string{"*"}, b.Spec.IncludedNamespaces)
	require.Contains(t, b.Spec.ExcludedNamespaces, hidden.Name)
	require.True(t, *b.Spec.DefaultVolumesToFsBackup)
	require.False(t, *b.Spec.SnapshotMoveData)
	require.Equal(t, "marked", b.Labels["velero.io/storage-location"])
	require.Equal(t, map[string]string{
		"velero.io/source-cluster-k8s-gitversion":    "v1.36.3",
		"velero.io/source-cluster-k8s-major-version": "1",
		"velero.io/source-cluster-k8s-minor-version": "36",
		"velero.io/resource-timeout":                 "10m0s",
	}, b.Annotations)
	require.Equal(t, 1, b.Status.Version) //nolint:staticcheck // deprecated, and still read by old clients
	require.Equal(t, "1.2.0", b.Status.FormatVersion)
	require.Equal(t, controllertest.Noon().Add(720*time.Hour).Truncate(time.Second), b.Status.Expiration.UTC())

	require.Equal(t, []string{"volumesnapshots.snapshot.storage.k8s.io"}, b.Spec.ExcludedNamespaceScopedResources)
	require.Equal(t, []string{"volumesnapshotcontents.snapshot.storage.k8s.io"}, b.Spec.ExcludedClusterScopedResources)

	again := b.DeepCopy()
	_, err = newBackups(c).prepare(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, b, again, "nothing is added twice")
}

func TestSnapshotObjectsAreExcluded(t *testing.T) {
	t.Parallel()
	old := velerov1.BackupSpec{IncludedResources: []string{"pods"}}
	excludeSnapshots(&old)
	require.Equal(t, []string{"volumesnapshots.snapshot.storage.k8s.io", "volumesnapshotcontents.snapshot.storage.k8s.io"},
		old.ExcludedResources)
	require.Empty(t, old.ExcludedClusterScopedResources)

	all := velerov1.BackupSpec{ExcludedClusterScopedResources: []string{"*"}}
	excludeSnapshots(&all)
	require.Equal(t, []string{"*"}, all.ExcludedClusterScopedResources)
}

func TestLocationsAreValidated(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	vsl := func(name, provider string) *velerov1.VolumeSnapshotLocation {
		return &velerov1.VolumeSnapshotLocation{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: velerov1.VolumeSnapshotLocationSpec{Provider: provider}}
	}
	c.Add(t,
		controllertest.NewLocation("good"),
		controllertest.NewLocation("closed", func(l *velerov1.BackupStorageLocation) {
			l.Spec.AccessMode = velerov1.BackupStorageLocationAccessModeReadOnly
		}),
		controllertest.NewLocation("fresh", func(l *velerov1.BackupStorageLocation) { l.Status.Phase = "" }),
		controllertest.NewLocation("broken", func(l *velerov1.BackupStorageLocation) {
			l.Status.Phase, l.Status.Message = velerov1.BackupStorageLocationPhaseUnavailable, "no such bucket"
		}),
		vsl("a1", "example.io/a"), vsl("a2", "example.io/a"), vsl("b1", "example.io/b"),
	)
	for name, tt := range map[string]struct {
		location  string
		snapshots []string
		fallback  map[string]string
		want      []string
		chosen    []string
	}{
		"none": {"", []string{"a1"}, nil,
			[]string{`backup storage location "default", the server's default, does not exist in namespace `}, nil},
		"another": {"other", []string{"a1"}, nil,
			[]string{`backup storage location "other", named in spec.storageLocation, does not exist in namespace `}, nil},
		"read-only":     {"closed", []string{"a1"}, nil, []string{"currently in read-only mode"}, nil},
		"not validated": {"fresh", []string{"a1"}, nil, []string{"has not been validated yet"}, nil},
		"unavailable":   {"broken", []string{"a1"}, nil, []string{"Unavailable status: no such bucket"}, nil},
		"named":         {"good", []string{"a2"}, nil, nil, []string{"a2", "b1"}},
		"same twice":    {"good", []string{"a2", "a2"}, nil, nil, []string{"a2", "b1"}},
		"default":       {"good", nil, map[string]string{"example.io/a": "a1"}, nil, []string{"a1", "b1"}},
		"no default": {"good", nil, nil, []string{"provider example.io/a has more than one possible volume snapshot " +
			"location"}, nil},
		"unknown default": {"good", nil, map[string]string{"example.io/a": "a9"},
			[]string{`default volume snapshot location "a9" of provider example.io/a does not exist`}, nil},
		"two for one": {"good", []string{"a1", "a2"}, nil,
			[]string{"more than one VolumeSnapshotLocation name specified for provider example.io/a: a2; unexpected name was a1"}, nil},
		"no such snapshot": {"good", []string{"a1", "zz"}, nil,
			[]string{`volume snapshot location "zz", named in spec.volumeSnapshotLocations, does not exist`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBackups(c)
			r.Defaults.SnapshotLocations = tt.fallback
			b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart),
				func(b *velerov1.Backup) {
					b.Namespace, b.Spec.StorageLocation, b.Spec.VolumeSnapshotLocations = c.Namespace, tt.location, tt.snapshots
				})
			_, err := r.prepare(t.Context(), b)
			require.NoError(t, err)
			require.Len(t, b.Status.ValidationErrors, len(tt.want), b.Status.ValidationErrors)
			for i, want := range tt.want {
				require.Contains(t, b.Status.ValidationErrors[i], want)
			}
			if tt.chosen != nil {
				require.Equal(t, tt.chosen, b.Spec.VolumeSnapshotLocations)
			}
		})
	}
}

func TestBackupSpecIsValidated(t *testing.T) {
	t.Parallel()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for name, tt := range map[string]struct {
		spec velerov1.BackupSpec
		want []string
	}{
		"nothing": {velerov1.BackupSpec{}, nil},
		"patterns": {velerov1.BackupSpec{IncludedNamespaces: []string{"a*", "b?", "c[de]"},
			ExcludedNamespaces: []string{"ab"}}, nil},
		"both families": {velerov1.BackupSpec{IncludeClusterResources: new(true),
			ExcludedClusterScopedResources: []string{"x"}}, []string{"cannot be used together"}},
		"all and more": {velerov1.BackupSpec{IncludedResources: []string{"*", "pods"}},
			[]string{"Invalid included/excluded resource lists: includes list must either contain '*' only"}},
		"exclude all": {velerov1.BackupSpec{ExcludedResources: []string{"*"}},
			[]string{"excludes list cannot contain '*'"}},
		"in both": {velerov1.BackupSpec{IncludedResources: []string{"pods"},
			ExcludedResources: []string{"pods"}}, []string{"excludes list cannot contain an item in the includes list: pods"}},
		"scoped exclude all": {velerov1.BackupSpec{ExcludedClusterScopedResources: []string{"*"}}, nil},
		"scoped all and more": {velerov1.BackupSpec{ExcludedNamespaceScopedResources: []string{"*", "pods"}},
			[]string{"Invalid namespace-scoped included/excluded resource lists: excludes list must either"}},
		"scoped all both": {velerov1.BackupSpec{IncludedClusterScopedResources: []string{"x"},
			ExcludedClusterScopedResources: []string{"*"}},
			[]string{"Invalid cluster-scoped included/excluded resource lists: when exclude is '*'"}},
		"namespace in both": {velerov1.BackupSpec{IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"a"}},
			[]string{"Invalid included/excluded namespace lists: excludes list cannot contain an item in the includes list: a"}},
		"no namespace": {velerov1.BackupSpec{IncludedNamespaces: []string{"Upper"}},
			[]string{`invalid namespace "Upper"`}},
		"braces": {velerov1.BackupSpec{ExcludedNamespaces: []string{"{a,b}"}},
			[]string{"must not contain any of"}},
		"empty namespace": {velerov1.BackupSpec{IncludedNamespaces: []string{""}}, nil},
		"both selectors": {velerov1.BackupSpec{LabelSelector: selector,
			OrLabelSelectors: []*metav1.LabelSelector{selector}}, []string{"only one can be specified"}},
		"bad selector": {velerov1.BackupSpec{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}},
		}, []string{"invalid labelSelector"}},
		"bad alternative": {velerov1.BackupSpec{
			OrLabelSelectors: []*metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b c"}}},
		}, []string{"invalid orLabelSelectors[0]"}},
		"policy of another kind": {velerov1.BackupSpec{ResourcePolicy: &velerov1.TypedLocalObjectReference{Kind: "Secret",
			Name: "x"}}, []string{`resource policy of kind "Secret" is not supported, want ConfigMap`}},
		"group label": {velerov1.BackupSpec{VolumeGroupSnapshotLabelKey: "example.com/tier"}, nil},
		"bad group label": {velerov1.BackupSpec{VolumeGroupSnapshotLabelKey: "a b"},
			[]string{`volumeGroupSnapshotLabelKey "a b" is not the key of a label: `}},
		"policy": {velerov1.BackupSpec{ResourcePolicy: &velerov1.TypedLocalObjectReference{Kind: "ConfigMap",
			Name: "x"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := CheckSpec(&tt.spec)
			require.Len(t, problems, len(tt.want), problems)
			for i, want := range tt.want {
				require.Contains(t, problems[i], want)
			}
		})
	}
}
