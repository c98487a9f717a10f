package pluginhost

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/server/internal/setup/plugininit"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

const (
	authored        = "example.io/stamp"
	authoredConfig  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop"}}`
	authoredStamped = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"example.io/stamp":"b"},"name":"web","namespace":"shop"}}`
	authoredClaim   = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"shop","uid":"c-1"}}`
	authoredVolume  = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"},"spec":{"hostPath":{"path":"/srv/data"}}}`
	authoredPod     = `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"example.io/stamp":"db"},"name":"web","namespace":"shop"}}`
)

// TestAcceptPlugins_ModuleOfAllKinds builds a module outside this tree that has all kinds, as `cleat plugin init`
// writes it. This server uses each of them; those of Velero are called as stock Velero does. The project's own tests
// call all kinds.
func TestAcceptPlugins_ModuleOfAllKinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := filepath.Join(dir, "stamp")
	buildAuthored(t, command)
	t.Run("in this server", func(t *testing.T) { t.Parallel(); requireAuthoredInThisServer(t, dir) })
	t.Run("in Velero", func(t *testing.T) { t.Parallel(); requireAuthoredInVelero(t, command) })
}

// buildAuthored writes and builds the module. Its go.sum is that of this tree, so that it needs no network.
func buildAuthored(t *testing.T, command string) {
	t.Helper()
	tree, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	module := t.TempDir()
	_, err = plugininit.Write(module, plugininit.Options{Name: authored, Kinds: plugininit.Kinds(), Framework: tree})
	require.NoError(t, err)
	sum, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(module, "go.sum"), sum, 0o600))
	programs.Depend(t, "./framework/...")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", command, ".")
	build.Dir, build.Env = module, append(os.Environ(), "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func requireAuthoredInThisServer(t *testing.T, dir string) {
	t.Helper()
	h := newTestHost(t, dir, func(c *Config) {
		c.Args = serverArguments()
		c.Environment = append(c.Environment, hostapi.StateDirEnv+"="+t.TempDir())
	})
	var used []string
	for _, entry := range h.Entries() {
		require.Empty(t, entry.Quarantined, entry.Kind)
		require.True(t, entry.Used, entry.Kind)
		require.Equal(t, authored, entry.Name)
		wire, known := kinds.Lookup(entry.Kind)
		require.True(t, known, entry.Kind)
		used = append(used, wire.Kind)
	}
	require.ElementsMatch(t, plugininit.Kinds(), used)
}

// veleroSide is the host side of stock Velero. It dispenses the bare connection.
type veleroSide struct{ plugin.NetRPCUnsupportedPlugin }

func (veleroSide) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host serves nothing")
}

func (veleroSide) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// startAsVelero starts a plugin as stock Velero does: with its handshake, without TLS, without calls of PluginInfo. It
// adds environment to its own.
func startAsVelero(t *testing.T, command string, environment ...string) *grpc.ClientConn {
	t.Helper()
	cmd := exec.Command(command, serverArguments()...)
	cmd.Env = environment // the client adds that of this process
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 2, MagicCookieKey: "VELERO_PLUGIN",
			MagicCookieValue: "hello"},
		Plugins:          plugin.PluginSet{"any": veleroSide{}},
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	require.NoError(t, err)
	dispensed, err := protocol.Dispense("any")
	require.NoError(t, err)
	conn, ok := dispensed.(*grpc.ClientConn)
	require.True(t, ok)
	return conn
}

func requireAuthoredInVelero(t *testing.T, command string) {
	t.Helper()
	conn, ctx := startAsVelero(t, command), t.Context()
	listed, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	require.NoError(t, err)
	var found []string
	for _, one := range listed.GetPlugins() {
		require.Equal(t, authored, one.GetName())
		require.Equal(t, command, one.GetCommand())
		found = append(found, one.GetKind())
	}
	require.ElementsMatch(t, []string{
		"BackupItemActionV2", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction", "ObjectStore",
		"VolumeSnapshotter",
	}, found, "Velero does not start with a kind that it does not know")

	backup := backupitemactionv2.NewBackupItemActionClient(conn)
	backupApplies, err := backup.AppliesTo(ctx, &backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: authored})
	require.NoError(t, err)
	require.Equal(t, []string{"configmaps"}, backupApplies.GetResourceSelector().GetIncludedResources())
	backedUp, err := backup.Execute(ctx, &backupitemactionv2.ExecuteRequest{Plugin: authored, Item: []byte(authoredConfig),
		Backup: backupJSON})
	require.NoError(t, err)
	require.JSONEq(t, authoredStamped, string(backedUp.GetItem()))
	require.Empty(t, backedUp.GetOperationID())

	restore := restoreitemactionv2.NewRestoreItemActionClient(conn)
	restoreApplies, err := restore.AppliesTo(ctx, &restoreitemactionv2.RestoreItemActionAppliesToRequest{Plugin: authored})
	require.NoError(t, err)
	require.Equal(t, []string{"configmaps"}, restoreApplies.GetResourceSelector().GetIncludedResources())
	restored, err := restore.Execute(ctx, &restoreitemactionv2.RestoreItemActionExecuteRequest{
		Plugin: authored, Item: []byte(authoredStamped), ItemFromBackup: []byte(authoredStamped),
		Restore: []byte(stockRestore),
	})
	require.NoError(t, err)
	require.Contains(t, string(restored.GetItem()), `"name":"web"`)
	require.NotContains(t, string(restored.GetItem()), authored)

	remove := deleteitemactionv1.NewDeleteItemActionClient(conn)
	removeApplies, err := remove.AppliesTo(ctx, &deleteitemactionv1.DeleteItemActionAppliesToRequest{Plugin: authored})
	require.NoError(t, err)
	require.Equal(t, []string{"persistentvolumes"}, removeApplies.GetResourceSelector().GetIncludedResources())
	_, err = remove.Execute(ctx, &deleteitemactionv1.DeleteItemActionExecuteRequest{Plugin: authored,
		Item: []byte(authoredVolume), Backup: backupJSON})
	require.NoError(t, err)

	block := itemblockactionv1.NewItemBlockActionClient(conn)
	blockApplies, err := block.AppliesTo(ctx, &itemblockactionv1.ItemBlockActionAppliesToRequest{Plugin: authored})
	require.NoError(t, err)
	require.Equal(t, []string{"pods"}, blockApplies.GetResourceSelector().GetIncludedResources())
	related, err := block.GetRelatedItems(ctx, &itemblockactionv1.ItemBlockActionGetRelatedItemsRequest{Plugin: authored,
		Item: []byte(authoredPod), Backup: backupJSON})
	require.NoError(t, err)
	require.Len(t, related.GetRelatedItems(), 1)
	require.Equal(t, "db", related.GetRelatedItems()[0].GetName())

	requireStoreInVelero(t, objectstorev1.NewObjectStoreClient(conn))

	snapshotter := volumesnapshotterv1.NewVolumeSnapshotterClient(conn)
	_, err = snapshotter.Init(ctx, &volumesnapshotterv1.VolumeSnapshotterInitRequest{Plugin: authored,
		Config: map[string]string{"path": t.TempDir()}})
	require.NoError(t, err)
	volume, err := snapshotter.GetVolumeID(ctx, &volumesnapshotterv1.GetVolumeIDRequest{Plugin: authored,
		PersistentVolume: []byte(authoredVolume)})
	require.NoError(t, err)
	require.Equal(t, "/srv/data", volume.GetVolumeID())
}

func requireStoreInVelero(t *testing.T, store objectstorev1.ObjectStoreClient) {
	t.Helper()
	_, err := store.Init(t.Context(), &objectstorev1.ObjectStoreInitRequest{Plugin: authored,
		Config: map[string]string{"bucket": "vault", "path": t.TempDir()}})
	require.NoError(t, err)
	upload, err := store.PutObject(t.Context())
	require.NoError(t, err)
	for _, piece := range []string{"one ", "two"} {
		require.NoError(t, upload.Send(&objectstorev1.PutObjectRequest{Plugin: authored, Bucket: "vault", Key: "a/one",
			Body: []byte(piece)}))
	}
	_, err = upload.CloseAndRecv()
	require.NoError(t, err)
	download, err := store.GetObject(t.Context(), &objectstorev1.GetObjectRequest{Plugin: authored, Bucket: "vault",
		Key: "a/one"})
	require.NoError(t, err)
	var content []byte
	for {
		piece, err := download.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content = append(content, piece.GetData()...)
	}
	require.Equal(t, "one two", string(content))
}
