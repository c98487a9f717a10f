package command

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAddRemedySaysWhatTheClusterLacks(t *testing.T) {
	t.Parallel()
	namespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "velero")
	require.EqualError(t, addRemedy(namespace),
		`namespaces "velero" not found; name the namespace of the server with --namespace`)
	kind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "velero.io", Kind: "ServerStatusRequest"},
		SearchedVersions: []string{"v1"}}
	require.EqualError(t, addRemedy(kind),
		`no matches for kind "ServerStatusRequest" in version "velero.io/v1"; "cleat install --crds-only" installs the custom resources`)
	require.ErrorIs(t, addRemedy(os.ErrClosed), os.ErrClosed)
}

func TestNamespaceOrDefault(t *testing.T) { //nolint:paralleltest // it sets the environment
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("VELERO_NAMESPACE", "")
	namespace := func(flag string) string {
		t.Helper()
		f := ClusterFlags{Namespace: flag}
		got, err := f.NamespaceOrDefault()
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "velero", namespace(""))
	require.NoError(t, os.MkdirAll(home+"/.config/velero", 0o700))
	require.NoError(t, os.WriteFile(home+"/.config/velero/config.json", []byte(`{"namespace":"from-file","features":"x"}`),
		0o600))
	require.Equal(t, "from-file", namespace(""))
	t.Setenv("VELERO_NAMESPACE", "from-env")
	require.Equal(t, "from-env", namespace(""))
	require.Equal(t, "from-flag", namespace("from-flag"))

	t.Setenv("VELERO_NAMESPACE", "")
	require.NoError(t, os.WriteFile(home+"/.config/velero/config.json", []byte(`[]`), 0o600))
	_, err := (&ClusterFlags{}).NamespaceOrDefault()
	require.ErrorContains(t, err, `config.json, want {"namespace": "..."}`)
}
