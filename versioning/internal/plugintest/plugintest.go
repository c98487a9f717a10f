// Package plugintest serves plugins to the tests of the facades, by a real gRPC server in the test's own process.
package plugintest

import (
	"context"
	"math"
	"net"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Serve serves the registrations of an author until the test ends.
func Serve(t testing.TB, regs ...framework.Registration) grpc.ClientConnInterface {
	t.Helper()
	return ServeRaw(t, nil, func(server *grpc.Server) {
		require.NoError(t, hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()}, regs...))
	})
}

// ServeRaw serves the services that register registers: a plugin that may break every rule.
func ServeRaw(t testing.TB, options []grpc.ServerOption, register func(*grpc.Server)) grpc.ClientConnInterface {
	t.Helper()
	server := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(math.MaxInt32))...)
	register(server)
	listener := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-done)
	})
	return conn
}
