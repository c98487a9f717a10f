package v1_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/programs"
)

func TestPackageImportsNoLargeLibraries(t *testing.T) {
	t.Parallel()
	programs.Depend(t, "./framework/api/velero/...")
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "../v2alpha1").Output()
	require.NoError(t, err)
	packages := strings.Fields(string(output))
	require.Contains(t, packages, "k8s.io/apimachinery/pkg/runtime")
	for _, path := range packages {
		for _, banned := range []string{
			"k8s.io/api/", "k8s.io/client-go/", "sigs.k8s.io/controller-runtime/", "k8s.io/apiextensions-apiserver/",
			"github.com/cleat-dev/cleat/framework/api/velero/crds",
		} {
			require.False(t, strings.HasPrefix(path, banned), "%s is linked", path)
		}
	}
}
