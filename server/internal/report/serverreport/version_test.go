package serverreport

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestStatusVersionIsAVersionOfVelero(t *testing.T) {
	t.Parallel()
	for own, want := range map[string]string{
		"v1.2.3": "v1.18.3+cleat.v1.2.3", "dev": "v1.18.3+cleat.dev", "v0.0.0-ab+dirty": "v1.18.3+cleat.v0.0.0.ab.dirty",
		"a..ü b": "v1.18.3+cleat.a.b", "": "v1.18.3+cleat",
	} {
		version := StatusVersion(own)
		require.Equal(t, want, version)
		require.Equal(t, "v1.18", semver.MajorMinor(version), "Velero's client compares it")
		order, err := CompareVelero(version)
		require.NoError(t, err)
		require.Zero(t, order)
	}
}

func TestServerVersionIsTheServersOwn(t *testing.T) {
	t.Parallel()
	answer := &velerov1.ServerStatusRequest{Status: velerov1.ServerStatusRequestStatus{ServerVersion: "v1.17.0"}}
	require.Equal(t, "v1.17.0", ServerVersion(answer), "Velero answers so")
	metav1.SetMetaDataAnnotation(&answer.ObjectMeta, VersionAnnotation, "v2+dirty")
	require.Equal(t, "v2+dirty", ServerVersion(answer))
}

func TestCompareVelero(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"v1.9.0": -1, "v1.17.9": -1, "v1.18.0": 0, "v1.18.9-rc.1": 0, "v1.19.0": 1,
		"v2.0.0": 1} {
		order, err := CompareVelero(version)
		require.NoError(t, err)
		require.Equal(t, want, order, version)
	}
	for _, version := range []string{"", "main", "1.18"} {
		_, err := CompareVelero(version)
		require.ErrorContains(t, err, "want one like v1.18.3", version)
	}
}
