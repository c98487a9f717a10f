package versioning_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// TestAcceptPlugins_WireGolden compares all kinds and versions of Velero's wire with descriptors written by hand, the
// way TestAcceptBackup_WireGolden compares its three kinds.
func TestAcceptPlugins_WireGolden(t *testing.T) {
	t.Parallel()
	v := newVelero(t, veleroMessages+veleroKindMessages, veleroMethods+veleroKindMethods)
	t.Run("messages and services", func(t *testing.T) { t.Parallel(); requireSameDescriptors(t, v) })
	t.Run("every kind that a plugin may list is there", func(t *testing.T) { t.Parallel(); requireAllKinds(t, v) })
	t.Run("literal bytes", func(t *testing.T) { t.Parallel(); requireLiteralBytesOfKinds(t) })
	t.Run("unknown fields", func(t *testing.T) { t.Parallel(); requireUnknownFieldsSurvive(t, v) })
	t.Run("our plugin under Velero's host", func(t *testing.T) {
		t.Parallel()
		command, conn := startPlugin(t, "kinds")
		converse(t, v, conn, kindsConversation(command))
	})
	t.Run("Velero's plugin under our host", func(t *testing.T) { t.Parallel(); requireHostSpeaksKinds(t, v) })
}

// veleroServices maps the names of the kinds in a plugin's list, as Velero uses them, to their gRPC services.
func veleroServices() map[string]string {
	return map[string]string{
		"ObjectStore": "generated.ObjectStore", "VolumeSnapshotter": "generated.VolumeSnapshotter",
		"BackupItemAction": "generated.BackupItemAction", "BackupItemActionV2": "v2.BackupItemAction",
		"RestoreItemAction": "generated.RestoreItemAction", "RestoreItemActionV2": "v2.RestoreItemAction",
		"DeleteItemAction": "generated.DeleteItemAction", "ItemBlockAction": "v1.ItemBlockAction",
	}
}

func requireAllKinds(t *testing.T, v velero) {
	t.Helper()
	for wire, service := range veleroServices() {
		_, known := kinds.Lookup(wire)
		require.True(t, known, wire)
		require.Contains(t, v.methods, "\n/"+service+"/")
	}
}

// requireLiteralBytesOfKinds anchors the other checks: these bytes were written by hand, by the rules of the protobuf
// encoding.
func requireLiteralBytesOfKinds(t *testing.T) {
	t.Helper()
	node := []*shared.ResourceIdentifier{{Resource: "r", Name: "n"}}
	for want, message := range map[string]proto.Message{
		"0a 02 7b7d 12 06 12 01 72 22 01 6e 1a 01 6f 22 06 12 01 72 22 01 6e": &backupitemactionv2.ExecuteResponse{
			Item: []byte("{}"), AdditionalItems: node, OperationID: "o", PostOperationItems: node,
		},
		"0a 01 70 12 01 6f 1a 02 7b7d": &backupitemactionv2.BackupItemActionProgressRequest{Plugin: "p", OperationID: "o",
			Backup: []byte("{}")},
		"0a 19 08 01 12 01 65 18 03 20 07 2a 01 62 32 01 64 3a 04 08 05 10 01 42 02 08 06": &backupitemactionv2.BackupItemActionProgressResponse{
			Progress: &shared.OperationProgress{
				Completed: true, Err: "e", NCompleted: 3, NTotal: 7, OperationUnits: "b", Description: "d",
				Started: &timestamppb.Timestamp{Seconds: 5, Nanos: 1}, Updated: &timestamppb.Timestamp{Seconds: 6},
			},
		},
		"0a 01 69 18 01 22 01 6f 28 01 32 02 08 5a": &restoreitemactionv2.RestoreItemActionExecuteResponse{
			Item: []byte("i"), SkipRestore: true, OperationID: "o", WaitForAdditionalItems: true,
			AdditionalItemsReadyTimeout: durationpb.New(90 * time.Second),
		},
		"0a 01 70 12 02 7b7d 1a 06 12 01 72 22 01 6e": &restoreitemactionv2.RestoreItemActionItemsReadyRequest{Plugin: "p",
			Restore: []byte("{}"), AdditionalItems: node},
		"08 01": &restoreitemactionv2.RestoreItemActionItemsReadyResponse{Ready: true},
		"0a 01 70 12 01 69 1a 01 62": &deleteitemactionv1.DeleteItemActionExecuteRequest{Plugin: "p", Item: []byte("i"),
			Backup: []byte("b")},
		"0a 06 12 01 72 22 01 6e": &itemblockactionv1.ItemBlockActionGetRelatedItemsResponse{RelatedItems: node},
		"0a 01 70 12 01 73 1a 01 74 22 01 7a 28 ac 02": &volumesnapshotterv1.CreateVolumeRequest{Plugin: "p",
			SnapshotID: "s", VolumeType: "t", VolumeAZ: "z", Iops: 300},
		"0a 01 70 12 01 76 1a 01 7a 22 06 0a016b12 0176": &volumesnapshotterv1.CreateSnapshotRequest{Plugin: "p",
			VolumeID: "v", VolumeAZ: "z", Tags: map[string]string{"k": "v"}},
	} {
		encoded, err := proto.Marshal(message)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(want, " ", ""), hex.EncodeToString(encoded), "%T", message)
	}
}

const (
	pv       = `{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"pv-1\"},\"spec\":{\"volume\":\"vol-1\"}}`
	movedPV  = `{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"pv-1\"},\"spec\":{\"volume\":\"vol-2\"}}`
	nightly  = `{\"metadata\":{\"name\":\"nightly\"}}`
	monday   = `{\"metadata\":{\"name\":\"monday\"}}`
	progress = `nCompleted:3 nTotal:7 operationUnits:"bytes" started:{seconds:1700000000 nanos:5} updated:{seconds:1700000001 nanos:5}`
)

// kindsConversation returns the calls of Velero's host to the plugin below framework/testdata/kinds, and the replies.
func kindsConversation(command string) []exchange {
	listed := ""
	for _, line := range []string{ // the kinds in Velero's order
		"BackupItemAction example.io/mover", "BackupItemActionV2 example.io/mover", "VolumeSnapshotter example.io/san",
		"RestoreItemActionV2 example.io/fetcher", "DeleteItemAction example.io/forget", "ItemBlockAction example.io/shards",
	} {
		kind, name, _ := strings.Cut(line, " ")
		listed += `plugins:{command:"` + command + `" kind:"` + kind + `" name:"` + name + `"} `
	}
	const (
		mover   = `plugin:"example.io/mover" `
		fetcher = `plugin:"example.io/fetcher" `
		san     = `plugin:"example.io/san" `
		result  = `{resource:"configmaps" namespace:"in-1" name:"nightly"}`
		key     = `{resource:"secrets" namespace:"old" name:"key"}`
	)
	return []exchange{
		{"/generated.PluginLister/ListPlugins", []string{""}, []string{listed}},

		{"/v2.BackupItemAction/AppliesTo", []string{mover}, []string{`ResourceSelector:{includedResources:"pods"}`}},
		{"/v2.BackupItemAction/Execute", []string{mover + `item:"` + pod + `" backup:"` + nightly + `"`},
			[]string{`item:"` + pod + `" additionalItems:` + result + ` operationID:"move-a" postOperationItems:` + result}},
		{"/v2.BackupItemAction/Progress", []string{mover + `operationID:"move-a" backup:"` + nightly + `"`},
			[]string{`progress:{` + progress + ` description:"move-a of nightly"}`}},
		{"/v2.BackupItemAction/Cancel", []string{mover + `operationID:"move-a" backup:"` + nightly + `"`}, []string{""}},

		{"/v2.RestoreItemAction/AppliesTo", []string{fetcher}, []string{`ResourceSelector:{includedResources:"pods"}`}},
		{"/v2.RestoreItemAction/Execute", []string{fetcher + `item:"` + pod + `" restore:"` + monday + `" itemFromBackup:"` +
			old + `"`},
			[]string{`item:"` + pod + `" additionalItems:` + key +
				` operationID:"fetch-b" waitForAdditionalItems:true additionalItemsReadyTimeout:{seconds:90}`}},
		{"/v2.RestoreItemAction/Execute",
			[]string{fetcher + `item:"` + pod + `" restore:"{\"metadata\":{\"name\":\"skip\"}}" itemFromBackup:"` + old + `"`},
			[]string{`item:"` + pod + `" skipRestore:true operationID:"fetch-b"`}},
		{"/v2.RestoreItemAction/Progress", []string{fetcher + `operationID:"fetch-b" restore:"` + monday + `"`},
			[]string{`progress:{completed:true err:"disk full" ` + progress + ` description:"fetch-b of monday"}`}},
		{"/v2.RestoreItemAction/Cancel", []string{fetcher + `operationID:"fetch-b" restore:"` + monday + `"`}, []string{""}},
		{"/v2.RestoreItemAction/AreAdditionalItemsReady", []string{fetcher + `restore:"` + monday + `" additionalItems:` +
			key}, []string{`ready:true`}},
		{"/v2.RestoreItemAction/AreAdditionalItemsReady", []string{fetcher + `restore:"` + monday + `"`}, []string{``}},

		{"/generated.DeleteItemAction/AppliesTo", []string{`plugin:"example.io/forget"`},
			[]string{`ResourceSelector:{selector:"app=db"}`}},
		{"/generated.DeleteItemAction/Execute", []string{`plugin:"example.io/forget" item:"` + pod + `" backup:"` + nightly +
			`"`}, []string{""}},

		{"/v1.ItemBlockAction/AppliesTo", []string{`plugin:"example.io/shards"`},
			[]string{`ResourceSelector:{includedNamespaces:"in-*"}`}},
		{"/v1.ItemBlockAction/GetRelatedItems", []string{`plugin:"example.io/shards" item:"` + pod + `" backup:"` + nightly +
			`"`},
			[]string{`relatedItems:{resource:"pods" namespace:"in-1" name:"a-2"} relatedItems:{group:"example.io" resource:"rings" name:"nightly"}`}},

		{"/generated.VolumeSnapshotter/Init", []string{san + `config:{key:"region" value:"north"}`}, []string{""}},
		{"/generated.VolumeSnapshotter/CreateVolumeFromSnapshot",
			[]string{san + `snapshotID:"s" volumeType:"fast" volumeAZ:"z" iops:300`}, []string{`volumeID:"s/fast/z/300"`}},
		{"/generated.VolumeSnapshotter/CreateVolumeFromSnapshot", []string{san + `snapshotID:"s" volumeType:"plain"`},
			[]string{`volumeID:"s/plain/"`}},
		{"/generated.VolumeSnapshotter/GetVolumeInfo", []string{san + `volumeID:"vol-1" volumeAZ:"z"`},
			[]string{`volumeType:"fast" iops:300`}},
		{"/generated.VolumeSnapshotter/GetVolumeInfo", []string{san + `volumeID:"vol-1"`}, []string{`volumeType:"plain"`}},
		{"/generated.VolumeSnapshotter/CreateSnapshot",
			[]string{san + `volumeID:"vol-1" volumeAZ:"z" tags:{key:"backup" value:"nightly"}`},
			[]string{`snapshotID:"vol-1/z/nightly"`}},
		{"/generated.VolumeSnapshotter/DeleteSnapshot", []string{san + `snapshotID:"s"`}, []string{""}},
		{"/generated.VolumeSnapshotter/GetVolumeID", []string{san + `persistentVolume:"` + pv + `"`},
			[]string{`volumeID:"vol-1"`}},
		{"/generated.VolumeSnapshotter/SetVolumeID", []string{san + `persistentVolume:"` + pv + `" volumeID:"vol-2"`},
			[]string{`persistentVolume:"` + movedPV + `"`}},
	}
}

func requireHostSpeaksKinds(t *testing.T, v velero) {
	t.Helper()
	conn := scripted(t, v, kindsConversation("/plugins/any"))
	listed, err := versioning.List(t.Context(), conn)
	require.NoError(t, err)
	began := time.Unix(1_700_000_000, 5).UTC()
	result := []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: "in-1", Name: "nightly"}}
	key := []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "old", Name: "key"}}

	// A name listed under two versions is used once, at the newer.
	backups := bindUsed(conn, kinds.BackupItemAction(), listed)
	require.Len(t, backups, 1)
	mover := backups[0]
	selector, err := mover.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"pods"}}, selector)
	stored, err := mover.Execute(t.Context(), unquoted(pod), unquoted(nightly))
	require.NoError(t, err)
	require.Equal(t, &backupitemaction.Result{Item: unquoted(pod), AdditionalItems: result, OperationID: "move-a",
		PostOperationItems: result}, stored)
	moved, err := mover.Progress(t.Context(), "move-a", unquoted(nightly))
	require.NoError(t, err)
	require.Equal(t, framework.OperationProgress{
		NCompleted: 3, NTotal: 7, Units: "bytes", Description: "move-a of nightly", Started: began,
		Updated: began.Add(time.Second),
	}, moved)
	require.NoError(t, mover.Cancel(t.Context(), "move-a", unquoted(nightly)))

	fetcher := restoreitemaction.V2().Bind(conn, "example.io/fetcher")
	_, err = fetcher.AppliesTo(t.Context())
	require.NoError(t, err)
	created, err := fetcher.Execute(t.Context(), restoreitemaction.Input{Item: unquoted(pod), Restore: unquoted(monday),
		ItemFromBackup: unquoted(old)})
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{
		Item: unquoted(pod), AdditionalItems: key, OperationID: "fetch-b",
		WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: 90 * time.Second,
	}, created)
	skipped, err := fetcher.Execute(t.Context(),
		restoreitemaction.Input{Item: unquoted(pod), Restore: []byte(`{"metadata":{"name":"skip"}}`),
			ItemFromBackup: unquoted(old)})
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{SkipRestore: true, OperationID: "fetch-b"}, skipped)
	fetched, err := fetcher.Progress(t.Context(), "fetch-b", unquoted(monday))
	require.NoError(t, err)
	require.Equal(t, framework.OperationProgress{
		Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "fetch-b of monday",
		Started: began, Updated: began.Add(time.Second),
	}, fetched)
	require.NoError(t, fetcher.Cancel(t.Context(), "fetch-b", unquoted(monday)))
	for want, items := range map[bool][]framework.ResourceIdentifier{true: key, false: nil} {
		ready, err := fetcher.AreAdditionalItemsReady(t.Context(), items, unquoted(monday))
		require.NoError(t, err)
		require.Equal(t, want, ready)
	}

	forget := deleteitemaction.V1().Bind(conn, "example.io/forget")
	selector, err = forget.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{LabelSelector: "app=db"}, selector)
	require.NoError(t, forget.Execute(t.Context(), unquoted(pod), unquoted(nightly)))

	shards := itemblockaction.V1().Bind(conn, "example.io/shards")
	selector, err = shards.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedNamespaces: []string{"in-*"}}, selector)
	related, err := shards.GetRelatedItems(t.Context(), unquoted(pod), unquoted(nightly))
	require.NoError(t, err)
	require.Equal(t, []framework.ResourceIdentifier{
		{Resource: "pods", Namespace: "in-1", Name: "a-2"}, {Group: "example.io", Resource: "rings", Name: "nightly"},
	}, related)

	requireHostSpeaksToSnapshotter(t, volumesnapshotter.V1().Bind(conn, "example.io/san"))
}

func requireHostSpeaksToSnapshotter(t *testing.T, san volumesnapshotter.Snapshotter) {
	t.Helper()
	require.NoError(t, san.Init(t.Context(), map[string]string{"region": "north"}))
	fast, plain := volumesnapshotter.Volume{Type: "fast", Zone: "z", IOPS: 300}, volumesnapshotter.Volume{Type: "plain"}
	for want, like := range map[string]volumesnapshotter.Volume{"s/fast/z/300": fast, "s/plain/": plain} {
		volumeID, err := san.CreateVolumeFromSnapshot(t.Context(), "s", like)
		require.NoError(t, err)
		require.Equal(t, want, volumeID)
		info, err := san.GetVolumeInfo(t.Context(), "vol-1", like.Zone)
		require.NoError(t, err)
		require.Equal(t, like, info)
	}
	snapshotID, err := san.CreateSnapshot(t.Context(), "vol-1", "z", map[string]string{"backup": "nightly"})
	require.NoError(t, err)
	require.Equal(t, "vol-1/z/nightly", snapshotID)
	require.NoError(t, san.DeleteSnapshot(t.Context(), "s"))
	volumeID, err := san.GetVolumeID(t.Context(), unquoted(pv))
	require.NoError(t, err)
	require.Equal(t, "vol-1", volumeID)
	changed, err := san.SetVolumeID(t.Context(), unquoted(pv), "vol-2")
	require.NoError(t, err)
	require.Equal(t, string(unquoted(movedPV)), string(changed))
}
