package hostenv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

func TestEnviron(t *testing.T) {
	t.Parallel()
	environ := []string{
		"PATH=/bin", "VELERO_NAMESPACE=velero", "AWS_SHARED_CREDENTIALS_FILE=/c/cloud", "VAULT_ENDPOINT=https://vault",
		"DATABASE_PASSWORD=secret",
		"https_proxy=http://proxy:3128", "KUBERNETES_SERVICE_HOST=10.0.0.1", "LD_LIBRARY_PATH=/plugins", "=C:=odd", "odd",
		"PATHOLOGY=x",
		// of the handshake in which the host itself was started as a plugin
		"VELERO_PLUGIN=no", "PLUGIN_CLIENT_CERT=old", "PLUGIN_UNIX_SOCKET_DIR=/old", "PLUGIN_MULTIPLEX_GRPC=true",
		"PLUGIN_FLAVOUR=its own",
	}
	handshake := []string{"PLUGIN_CLIENT_CERT", "PLUGIN_MULTIPLEX_GRPC", "PLUGIN_UNIX_SOCKET_DIR", "VELERO_PLUGIN"}
	complete := []string{
		"PATH=/bin", "VELERO_NAMESPACE=velero", "AWS_SHARED_CREDENTIALS_FILE=/c/cloud", "VAULT_ENDPOINT=https://vault",
		"DATABASE_PASSWORD=secret",
		"https_proxy=http://proxy:3128", "KUBERNETES_SERVICE_HOST=10.0.0.1", "LD_LIBRARY_PATH=/plugins", "PATHOLOGY=x",
		"PLUGIN_FLAVOUR=its own", "EXTRA=1",
	}
	passed, withheld := hostenv.Complete.Environ(environ, "EXTRA=1")
	require.Equal(t, complete, passed)
	require.Equal(t, handshake, withheld)
	require.Equal(t, complete, hostenv.Environ(environ, "EXTRA=1"))

	passed, withheld = hostenv.Strict.Environ(environ, "EXTRA=1")
	require.Equal(t, []string{
		"PATH=/bin", "VELERO_NAMESPACE=velero", "AWS_SHARED_CREDENTIALS_FILE=/c/cloud",
		"https_proxy=http://proxy:3128", "KUBERNETES_SERVICE_HOST=10.0.0.1", "LD_LIBRARY_PATH=/plugins", "EXTRA=1",
	}, passed)
	require.Equal(t, []string{
		"DATABASE_PASSWORD", "PATHOLOGY", "PLUGIN_CLIENT_CERT", "PLUGIN_FLAVOUR", "PLUGIN_MULTIPLEX_GRPC",
		"PLUGIN_UNIX_SOCKET_DIR",
		"VAULT_ENDPOINT", "VELERO_PLUGIN",
	}, withheld)
}
