package plugins_test

import (
	"context"
	"net"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/plugins"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// serve is a connection to all built-in plugins, as a process of them serves them.
func serve(t *testing.T) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer()
	require.NoError(t, hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()}, plugins.All()...))
	listener := bufconn.Listen(1 << 20)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	conn, err := grpc.NewClient("passthrough:built-ins",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// TestVeleroIsShownItsOwnKindsOnly: its server does not start when a plugin lists a kind that it does not know.
func TestVeleroIsShownItsOwnKindsOnly(t *testing.T) {
	t.Parallel()
	veleros := []string{
		"BackupItemAction", "BackupItemActionV2", "RestoreItemAction", "RestoreItemActionV2", "DeleteItemAction",
		"ItemBlockAction", "ObjectStore", "VolumeSnapshotter",
	}
	conn := serve(t)
	listed, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(t.Context(), &shared.Empty{})
	require.NoError(t, err)
	require.NotEmpty(t, listed.GetPlugins())
	for _, plugin := range listed.GetPlugins() {
		require.Contains(t, veleros, plugin.GetKind())
	}

	info, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(t.Context(),
		&plugininfov1.GetPluginInfoRequest{})
	require.NoError(t, err)
	configurable := map[string][]string{} // names by kind
	for _, plugin := range info.GetPlugins() {
		if len(plugin.GetConfigSchema()) > 0 {
			configurable[plugin.GetKind()] = append(configurable[plugin.GetKind()], plugin.GetName())
		}
	}
	require.Equal(t, map[string][]string{
		"QueueAdmission": {"cleat.dev/fifo", "cleat.dev/item-overlap", "cleat.dev/namespace-overlap", "cleat.dev/priority"},
		"LoadSoothing":   {"cleat.dev/prepare-queue"},
		"ManifestWriter": {"cleat.dev/item-list", "cleat.dev/manifest"},
		"ObjectStore":    {"cleat.dev/file", "cleat.dev/s3", "cleat.dev/sealed"},
	}, configurable)
}
