package pluginhost

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/cleat-dev/cleat/versioning"
)

func TestTLSPluginsAcceptOnlyTheHost(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ encrypted bool }{
		"behave":        {true},  // framework
		"lists-nothing": {true},  // go-plugin without the framework
		"plain":         {false}, // an old go-plugin
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, name), nil)
			require.Empty(t, h.Entries()[0].Quarantined)
			_, err := versioning.List(t.Context(), h.supervisor().Conn("", nil))
			require.NoError(t, err, "the host can call it")
			process := h.pool.Running()[0]
			require.Equal(t, test.encrypted, process.Encrypted)

			strangers := map[string]credentials.TransportCredentials{
				"without TLS":           insecure.NewCredentials(),
				"without a certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
			}
			for who, credentials := range strangers {
				err := askHealth(t, process.Address, credentials)
				if !test.encrypted && who == "without TLS" {
					require.NoError(t, err, who)
					continue
				}
				require.Error(t, err, who)
			}
			require.Equal(t, 1, h.journalCount("start"), "started once, whatever it can")
		})
	}
}

// askHealth calls a plugin as another program that has found its socket.
func askHealth(t *testing.T, address net.Addr, credentials credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:stranger", grpc.WithTransportCredentials(credentials),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, address.Network(), address.String())
		}))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	return err
}
