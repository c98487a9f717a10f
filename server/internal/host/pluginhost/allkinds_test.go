package pluginhost

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
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
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
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
// writes it, and calls the same binary in this server and, for Velero's kinds, as stock Velero does.
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
	calls := map[string]func(*testing.T, *testHost, *Session){
		"BackupItemAction":       callBackupItemAction,
		"AsyncBackupItemAction":  callAsyncBackupItemAction,
		"RestoreItemAction":      callRestoreItemAction,
		"AsyncRestoreItemAction": callAsyncRestoreItemAction,
		"DeleteItemAction":       callDeleteItemAction,
		"ItemBlockAction":        callItemBlockAction,
		"ObjectStore":            callObjectStore,
		"VolumeSnapshotter":      callVolumeSnapshotter,
		"QueueAdmission":         callQueueAdmission,
		"LoadSoothing":           callLoadSoothing,
		"ManifestWriter":         callManifestWriter,
		"DataMover":              callDataMover,
	}
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
	session := h.Session("", hclog.NewNullLogger())
	t.Cleanup(session.Close)
	for _, kind := range used {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, calls, kind)
			calls[kind](t, h, session)
		})
	}
}

// only returns the plugin of a kind in a session; there must be one.
func only[H any](t *testing.T, session *Session, kind versioning.Kind[H]) H {
	t.Helper()
	all := All(session, kind)
	require.Len(t, all, 1)
	return all[0]
}

// requireAppliesTo checks which resources an action selects.
func requireAppliesTo(t *testing.T, action interface {
	AppliesTo(context.Context) (framework.ResourceSelector, error)
}, resource string,
) {
	t.Helper()
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{resource}}, selector)
}

// requireCompletes waits until an operation is done.
func requireCompletes(t *testing.T, progress func() (framework.OperationProgress, error)) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := progress()
		return err == nil && now.Completed && now.Err == "" && now.NCompleted == 3
	}, longEnough, 50*time.Millisecond)
}

func callBackupItemAction(t *testing.T, _ *testHost, session *Session) {
	action := only(t, session, kinds.BackupItemAction())
	requireAppliesTo(t, action, "configmaps")
	result, err := action.Execute(t.Context(), []byte(authoredConfig), backupJSON)
	require.NoError(t, err)
	require.JSONEq(t, authoredStamped, string(result.Item))
}

func callAsyncBackupItemAction(t *testing.T, _ *testHost, session *Session) {
	action := only(t, session, kinds.AsyncBackupItemAction())
	requireAppliesTo(t, action, "persistentvolumeclaims")
	result, err := action.Execute(t.Context(), []byte(authoredClaim), backupJSON)
	require.NoError(t, err)
	require.NotEmpty(t, result.OperationID)
	requireCompletes(t, func() (framework.OperationProgress, error) {
		return action.Progress(t.Context(), result.OperationID, backupJSON)
	})
}

func callRestoreItemAction(t *testing.T, _ *testHost, session *Session) {
	action := only(t, session, kinds.RestoreItemAction())
	requireAppliesTo(t, action, "configmaps")
	stamped := []byte(authoredStamped)
	result, err := action.Execute(t.Context(), restoreitemaction.Input{Item: stamped, ItemFromBackup: stamped,
		Restore: []byte(stockRestore)})
	require.NoError(t, err)
	require.NotContains(t, string(result.Item), authored)
}

func callAsyncRestoreItemAction(t *testing.T, _ *testHost, session *Session) {
	action := only(t, session, kinds.AsyncRestoreItemAction())
	requireAppliesTo(t, action, "persistentvolumeclaims")
	claim := []byte(authoredClaim)
	result, err := action.Execute(t.Context(), restoreitemaction.Input{Item: claim, ItemFromBackup: claim,
		Restore: []byte(stockRestore)})
	require.NoError(t, err)
	require.NotEmpty(t, result.OperationID)
	requireCompletes(t, func() (framework.OperationProgress, error) {
		return action.Progress(t.Context(), result.OperationID, []byte(stockRestore))
	})
}

func callDeleteItemAction(t *testing.T, _ *testHost, session *Session) {
	action := only(t, session, kinds.DeleteItemAction())
	requireAppliesTo(t, action, "persistentvolumes")
	require.NoError(t, action.Execute(t.Context(), []byte(authoredVolume), backupJSON))
}

func callItemBlockAction(t *testing.T, _ *testHost, session *Session) {
	action := only(t, session, kinds.ItemBlockAction())
	requireAppliesTo(t, action, "pods")
	related, err := action.GetRelatedItems(t.Context(), []byte(authoredPod), backupJSON)
	require.NoError(t, err)
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "pods", Namespace: "shop", Name: "db"}}, related)
}

func callObjectStore(t *testing.T, h *testHost, _ *Session) {
	store, err := h.ObjectStore(t.Context(), "default", authored,
		map[string]string{"bucket": "vault", "path": t.TempDir()})
	require.NoError(t, err)
	content := strings.Repeat("0123456789abcdef", 5_000)
	require.NoError(t, store.PutObject(t.Context(), "vault", "a/one", strings.NewReader(content)))
	reader, err := store.GetObject(t.Context(), "vault", "a/one")
	require.NoError(t, err)
	got, err := io.ReadAll(reader)
	require.NoError(t, errors.Join(err, reader.Close()))
	require.Equal(t, content, string(got))
}

func callVolumeSnapshotter(t *testing.T, _ *testHost, session *Session) {
	snapshotter := only(t, session, kinds.VolumeSnapshotter())
	require.NoError(t, snapshotter.Init(t.Context(), map[string]string{"path": t.TempDir()}))
	id, err := snapshotter.GetVolumeID(t.Context(), []byte(authoredVolume))
	require.NoError(t, err)
	require.Equal(t, "/srv/data", id)
}

func callQueueAdmission(t *testing.T, h *testHost, _ *Session) {
	policy, err := Named(h, kinds.QueueAdmission(), authored)
	require.NoError(t, err)
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	decision, err := policy.Decide(t.Context(), &queueadmission.Snapshot{Input: queueadmission.Input{
		Now: now, Limit: 1, Queued: []queueadmission.Backup{{Name: "first", Created: now}, {Name: "second", Created: now}},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, decision.Admit)
	require.Len(t, decision.Waiting, 1)
	require.Equal(t, "second", decision.Waiting[0].Name)
}

func callLoadSoothing(t *testing.T, h *testHost, _ *Session) {
	policy, err := Named(h, kinds.LoadSoothing(), authored)
	require.NoError(t, err)
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	for preparing, admitted := range map[int]bool{1: true, 2: false} { // its default is two per node
		decision, err := policy.Admit(t.Context(), &loadsoothing.Request{Input: loadsoothing.Input{
			Now: now, Load: loadsoothing.Load{Kind: "DataUpload", Name: "one", Node: "n", Created: now},
			Counts: []loadsoothing.Count{{Kind: "DataUpload", Node: "n", Prepared: preparing}},
		}})
		require.NoError(t, err)
		require.Equal(t, admitted, decision.Admitted)
	}
}

func callManifestWriter(t *testing.T, h *testHost, _ *Session) {
	writer, err := Named(h, kinds.ManifestWriter(), authored)
	require.NoError(t, err)
	kept := map[string]string{}
	manifest, err := writer.Begin(t.Context(), manifestwriter.Input{Backup: backupJSON},
		func(name string, content io.Reader) error {
			all, err := io.ReadAll(content)
			kept[name] = string(all)
			return err
		})
	require.NoError(t, err)
	defer manifest.Abort()
	require.NoError(t, manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
		Namespace: "shop", Name: "web"}))
	require.NoError(t, manifest.Finish())
	require.Equal(t, map[string]string{"stamp.json": "{\"configmaps\":1}\n"}, kept)
}

func callDataMover(t *testing.T, h *testHost, _ *Session) {
	mover, err := Named(h, kinds.DataMover(), authored)
	require.NoError(t, err)
	repository := datamover.Repository{
		Provider: "cleat.dev/file", Config: map[string]string{"bucket": "vault", "path": t.TempDir()}, Path: "plugins/shop",
		Password: []byte("secret"),
	}
	checked, err := mover.Check(t.Context(), datamover.Check{Repository: repository, Create: true}, nil)
	require.NoError(t, err)
	require.True(t, checked.Created)
	volume, restored := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(volume, "a"), []byte("content"), 0o600))
	var last datamover.Progress
	snapshot, err := mover.Backup(t.Context(), datamover.Backup{Repository: repository, Key: "load-1",
		Volume: datamover.Volume{Path: volume}},
		func(p datamover.Progress) { last = p })
	require.NoError(t, err)
	require.EqualValues(t, len("content"), snapshot.Bytes)
	require.Equal(t, snapshot.Bytes, last.DoneBytes)
	_, err = mover.Restore(t.Context(), datamover.Restore{Repository: repository, SnapshotID: snapshot.SnapshotID,
		Volume: datamover.Volume{Path: restored}}, nil)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(restored, "a"))
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
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
