package v1_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
)

// newScheme returns a scheme with this package and package v2alpha1, which is tested here too.
func newScheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, v1.AddToScheme(scheme))
	require.NoError(tb, v2alpha1.AddToScheme(scheme))
	return scheme
}

// newDecoder returns a decoder that refuses unknown and duplicate fields.
func newDecoder(tb testing.TB) runtime.Decoder {
	tb.Helper()
	return serializer.NewCodecFactory(newScheme(tb), serializer.EnableStrict).UniversalDeserializer()
}

// declaredKinds returns the kinds of the packages under test in scheme with their versions, including lists but without
// the meta types of the group.
func declaredKinds(scheme *runtime.Scheme) map[string]schema.GroupVersion {
	kinds := make(map[string]schema.GroupVersion)
	for _, version := range []schema.GroupVersion{v1.SchemeGroupVersion, v2alpha1.SchemeGroupVersion} {
		for kind, goType := range scheme.KnownTypes(version) {
			if isOurs(goType) {
				kinds[kind] = version
			}
		}
	}
	return kinds
}

// isOurs reports whether a type is declared in a package under test.
func isOurs(goType reflect.Type) bool {
	home := goType.PkgPath()
	return home == reflect.TypeFor[v1.Backup]().PkgPath() || home == reflect.TypeFor[v2alpha1.DataUpload]().PkgPath()
}

func TestSchemeHasEveryKindAndList(t *testing.T) {
	t.Parallel()
	for kind, version := range map[string]string{
		"Backup": "v1", "BackupRepository": "v1", "BackupStorageLocation": "v1", "DataDownload": "v2alpha1",
		"DataUpload":          "v2alpha1",
		"DeleteBackupRequest": "v1", "DownloadRequest": "v1", "PodVolumeBackup": "v1", "PodVolumeRestore": "v1",
		"Restore":  "v1",
		"Schedule": "v1", "ServerStatusRequest": "v1", "VolumeSnapshotLocation": "v1",
	} {
		declared := declaredKinds(newScheme(t))
		want := schema.GroupVersion{Group: "velero.io", Version: version}
		require.Equal(t, want, declared[kind], kind)
		require.Equal(t, want, declared[kind+"List"], kind)
		require.Len(t, declared, 2*13)
	}
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
