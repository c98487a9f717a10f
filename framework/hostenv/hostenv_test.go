package hostenv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

func TestEnvironPassesOnlyAllowedVariables(t *testing.T) {
	t.Parallel()
	passed := hostenv.Environ([]string{
		"PATH=/bin", "VELERO_NAMESPACE=velero", "AWS_SHARED_CREDENTIALS_FILE=/c/cloud", "DATABASE_PASSWORD=secret",
		"https_proxy=http://proxy:3128", "KUBERNETES_SERVICE_HOST=10.0.0.1", "LD_LIBRARY_PATH=/plugins", "=C:=odd", "PATHOLOGY=x",
	}, "EXTRA=1")
	require.Equal(t, []string{
		"PATH=/bin", "VELERO_NAMESPACE=velero", "AWS_SHARED_CREDENTIALS_FILE=/c/cloud",
		"https_proxy=http://proxy:3128", "KUBERNETES_SERVICE_HOST=10.0.0.1", "LD_LIBRARY_PATH=/plugins", "EXTRA=1",
	}, passed)
}
