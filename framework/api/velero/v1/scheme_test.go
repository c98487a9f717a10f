package v1_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// newScheme returns a scheme with only this package.
func newScheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, v1.AddToScheme(scheme))
	return scheme
}

// newDecoder returns a decoder that refuses unknown and duplicate fields.
func newDecoder(tb testing.TB) runtime.Decoder {
	tb.Helper()
	return serializer.NewCodecFactory(newScheme(tb), serializer.EnableStrict).UniversalDeserializer()
}

// declaredKinds returns the kinds of the package under test in scheme, including lists but without
// the meta types of the group, in alphabetical order.
func declaredKinds(scheme *runtime.Scheme) []string {
	home := reflect.TypeFor[v1.Backup]().PkgPath()
	var kinds []string
	for kind, goType := range scheme.KnownTypes(v1.SchemeGroupVersion) {
		if goType.PkgPath() == home {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

func TestSchemeHasEveryKindAndList(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"Backup", "BackupList",
		"BackupStorageLocation", "BackupStorageLocationList",
		"DeleteBackupRequest", "DeleteBackupRequestList",
		"DownloadRequest", "DownloadRequestList",
		"Restore", "RestoreList",
		"Schedule", "ScheduleList",
		"ServerStatusRequest", "ServerStatusRequestList",
		"VolumeSnapshotLocation", "VolumeSnapshotLocationList",
	}, declaredKinds(newScheme(t)))
}

func TestAddToSchemeIsRepeatable(t *testing.T) {
	t.Parallel()
	require.NoError(t, v1.AddToScheme(newScheme(t)))
}

func TestKindAndResourceAddGroup(t *testing.T) {
	t.Parallel()
	require.Equal(t, "velero.io/v1", v1.SchemeGroupVersion.String())
	require.Equal(t, "Backup.velero.io", v1.Kind("Backup").String())
	require.Equal(t, "backups.velero.io", v1.Resource("backups").String())
}
