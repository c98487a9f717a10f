package plugintest_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// program returns the path of a test plugin of the framework.
func program(t *testing.T, name string) string {
	t.Helper()
	return programs.Build(t, "framework/testdata/"+name)
}

func TestProcessLogsPrintsAndDies(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Start(t, program(t, "plugin"), "--log-level=debug")
	pod := &biav1.ExecuteInput{Item: plugintest.Object(t, secret), Backup: plugintest.Backup("nightly")}
	_, err := plugin.BackupItemActionV1("example.io/log").Execute(t.Context(), pod)
	require.NoError(t, err)
	line := plugin.AwaitLog("an info line")
	require.Equal(t, hclog.Info, line.Level)
	require.EqualValues(t, 3, line.Fields["count"])
	for _, line := range plugin.Logs() {
		require.NotEqual(t, "a trace", line.Message, "--log-level=debug has no traces")
	}

	_, err = plugin.BackupItemActionV1("example.io/print").Execute(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, hclog.NoLevel, plugin.AwaitLog("1|2|unix|/nowhere|grpc|").Level)

	_, err = plugin.BackupItemActionV1("example.io/panic").Execute(t.Context(), pod)
	var failed *plugintest.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, codes.Aborted, failed.Code)
	require.Equal(t, "main.nilDereference", failed.Frames[0].Function)

	plugin.Kill()
	_, err = plugin.BackupItemActionV1("example.io/log").Execute(t.Context(), pod)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, codes.Unavailable, failed.Code)
}

func TestBuildBuildsPackageOfTest(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Start(t, plugintest.Build(t, "../testdata/hello"))
	require.NotEmpty(t, plugin.Registered())
}

func TestEveryKindIsCalledOverTheWire(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plugin, kinds := plugintest.Start(t, program(t, "plugin")), plugintest.Start(t, program(t, "kinds"))
	nightly, monday := plugintest.Backup("nightly"), plugintest.Restore("monday", "nightly")
	item := plugintest.Object(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: in-1, name: data}}`)
	began := time.Unix(1_700_000_000, 5).UTC()
	progress := func(description string) framework.OperationProgress {
		return framework.OperationProgress{
			NCompleted: 3, NTotal: 7, Units: "bytes", Description: description, Started: began, Updated: began.Add(time.Second),
		}
	}

	t.Run("BackupItemAction v1", func(t *testing.T) {
		t.Parallel()
		action := plugin.BackupItemActionV1("example.io/stamp")
		selector, err := action.AppliesTo(ctx)
		require.NoError(t, err)
		require.Equal(t, framework.ResourceSelector{
			IncludedNamespaces: []string{"in-*"}, ExcludedNamespaces: []string{"in-2"},
			IncludedResources: []string{"pods", "deployments.apps"}, ExcludedResources: []string{"secrets"},
			LabelSelector: "app=db",
		}, selector)
		output, err := action.Execute(ctx, &biav1.ExecuteInput{Item: item, Backup: nightly})
		require.NoError(t, err)
		require.Equal(t, "nightly", output.UpdatedItem.GetAnnotations()["example.io/stamp"])
		require.Equal(t, []framework.ResourceIdentifier{{Group: "apps", Resource: "deployments", Namespace: "in-1",
			Name: "web"}}, output.AdditionalItems)
	})
	t.Run("BackupItemAction v2", func(t *testing.T) {
		t.Parallel()
		action := kinds.BackupItemActionV2("example.io/mover")
		output, err := action.Execute(ctx, &biav2.ExecuteInput{Item: item, Backup: nightly})
		require.NoError(t, err)
		settings := []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: "in-1", Name: "nightly"}}
		require.Equal(t, &biav2.ExecuteOutput{
			UpdatedItem: item, AdditionalItems: settings, OperationID: "move-data", PostOperationItems: settings,
		}, output)
		done, err := action.Progress(ctx, &biav2.ProgressInput{OperationID: "move-data", Backup: nightly})
		require.NoError(t, err)
		require.Equal(t, progress("move-data of nightly"), done)
		require.NoError(t, action.Cancel(ctx, &biav2.CancelInput{OperationID: "move-data", Backup: nightly}))
		require.ErrorContains(t, action.Cancel(ctx, &biav2.CancelInput{OperationID: "", Backup: nightly}),
			"no operation is named")
	})
	t.Run("AsyncBackupItemAction v1", func(t *testing.T) {
		t.Parallel()
		action := kinds.AsyncBackupItemActionV1("example.io/copier")
		selector, err := action.AppliesTo(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"persistentvolumeclaims"}, selector.IncludedResources)
		output, err := action.Start(ctx, &abiav1.StartInput{Item: item, Backup: nightly, Key: "k"})
		require.NoError(t, err)
		require.Equal(t, abiav1.NewStartOutput(item).WithOperation("k"), output)
		done, err := action.Progress(ctx, &abiav1.ProgressInput{OperationID: "k", Backup: nightly})
		require.NoError(t, err)
		require.Equal(t, progress("k of nightly"), done)
		require.NoError(t, action.Cancel(ctx, &abiav1.CancelInput{OperationID: "k", Backup: nightly}))
	})
	t.Run("RestoreItemAction v1", func(t *testing.T) {
		t.Parallel()
		input := &riav1.ExecuteInput{Item: item, ItemFromBackup: item, Restore: monday}
		output, err := plugin.RestoreItemActionV1("example.io/compare").Execute(ctx, input)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"was": "in-1/data", "restore": "monday"}, output.UpdatedItem.GetAnnotations())
		require.Len(t, output.AdditionalItems, 1)
		output, err = plugin.RestoreItemActionV1("example.io/skip").Execute(ctx, input)
		require.NoError(t, err)
		require.True(t, output.SkipRestore)
	})
	t.Run("RestoreItemAction v2", func(t *testing.T) {
		t.Parallel()
		action := kinds.RestoreItemActionV2("example.io/fetcher")
		output, err := action.Execute(ctx, &riav2.ExecuteInput{Item: item, ItemFromBackup: item, Restore: monday})
		require.NoError(t, err)
		require.Equal(t, riav2.NewExecuteOutput(item).WithOperation("fetch-data").WithItemsWaitFor(90*time.Second).
			WithItems(framework.ResourceIdentifier{Resource: "secrets", Namespace: "in-1", Name: "key"}), output)
		ready, err := action.AreAdditionalItemsReady(ctx,
			&riav2.AreAdditionalItemsReadyInput{AdditionalItems: output.AdditionalItems, Restore: monday})
		require.NoError(t, err)
		require.True(t, ready.Ready)
		done, err := action.Progress(ctx, &riav2.ProgressInput{OperationID: "fetch-data", Restore: monday})
		require.NoError(t, err)
		require.True(t, done.Completed)
		require.Equal(t, "disk full", done.Err)
		require.NoError(t, action.Cancel(ctx, &riav2.CancelInput{OperationID: "fetch-data", Restore: monday}))
	})
	t.Run("AsyncRestoreItemAction v1", func(t *testing.T) {
		t.Parallel()
		action := kinds.AsyncRestoreItemActionV1("example.io/copier")
		output, err := action.Start(ctx, &ariav1.StartInput{Item: item, ItemFromBackup: item, Restore: monday, Key: "k"})
		require.NoError(t, err)
		require.Equal(t, ariav1.NewStartOutput(item).WithOperation("k").WithoutRestore(), output)
		done, err := action.Progress(ctx, &ariav1.ProgressInput{OperationID: "k", Restore: monday})
		require.NoError(t, err)
		require.Equal(t, progress("k of monday"), done)
		require.ErrorIs(t, action.Cancel(ctx, &ariav1.CancelInput{OperationID: "k", Restore: monday}),
			framework.ErrCannotCancel)
	})
	t.Run("DeleteItemAction v1", func(t *testing.T) {
		t.Parallel()
		action := kinds.DeleteItemActionV1("example.io/forget")
		selector, err := action.AppliesTo(ctx)
		require.NoError(t, err)
		require.Equal(t, "app=db", selector.LabelSelector)
		require.NoError(t, action.Execute(ctx, &diav1.ExecuteInput{Item: item, Backup: nightly}))
		require.EqualError(t, action.Execute(ctx, &diav1.ExecuteInput{Item: item}),
			"DeleteItemAction(example.io/forget): not a backup of ours")
	})
	t.Run("ItemBlockAction v1", func(t *testing.T) {
		t.Parallel()
		related, err := kinds.ItemBlockActionV1("example.io/shards").GetRelatedItems(ctx,
			&ibav1.GetRelatedItemsInput{Item: item, Backup: nightly})
		require.NoError(t, err)
		require.Equal(t, []framework.ResourceIdentifier{
			{Resource: "pods", Namespace: "in-1", Name: "data-2"}, {Group: "example.io", Resource: "rings", Name: "nightly"},
		}, related.RelatedItems)
	})
	t.Run("VolumeSnapshotter v1", func(t *testing.T) {
		t.Parallel()
		_, err := kinds.VolumeSnapshotterV1("example.io/san").GetVolumeInfo(ctx, &vsv1.GetVolumeInfoInput{})
		require.ErrorContains(t, err, "config has no region")
		san := kinds.VolumeSnapshotterV1("example.io/san", plugintest.WithConfig(map[string]string{"region": "eu"}))
		info, err := san.GetVolumeInfo(ctx, &vsv1.GetVolumeInfoInput{VolumeID: "v", VolumeAZ: "a"})
		require.NoError(t, err)
		require.Equal(t, "fast", info.VolumeType)
		require.EqualValues(t, 300, *info.IOPS)
		volume, err := san.CreateVolumeFromSnapshot(ctx, &vsv1.CreateVolumeFromSnapshotInput{SnapshotID: "s",
			VolumeType: "fast", VolumeAZ: "a", IOPS: info.IOPS})
		require.NoError(t, err)
		require.Equal(t, "s/fast/a/300", volume.VolumeID)
		info, err = san.GetVolumeInfo(ctx, &vsv1.GetVolumeInfoInput{VolumeID: "v"})
		require.NoError(t, err)
		require.Nil(t, info.IOPS)
		snapshot, err := san.CreateSnapshot(ctx, &vsv1.CreateSnapshotInput{VolumeID: "v", VolumeAZ: "a",
			Tags: map[string]string{"backup": "nightly"}})
		require.NoError(t, err)
		require.Equal(t, "v/a/nightly", snapshot.SnapshotID)
		require.NoError(t, san.DeleteSnapshot(ctx, &vsv1.DeleteSnapshotInput{SnapshotID: snapshot.SnapshotID}))
		changed, err := san.SetVolumeID(ctx, &vsv1.SetVolumeIDInput{PersistentVolume: item, VolumeID: "v-2"})
		require.NoError(t, err)
		found, err := san.GetVolumeID(ctx, &vsv1.GetVolumeIDInput{PersistentVolume: changed.PersistentVolume})
		require.NoError(t, err)
		require.Equal(t, "v-2", found.VolumeID)
	})
	t.Run("ObjectStore v1", func(t *testing.T) {
		t.Parallel()
		store := plugin.ObjectStoreV1("example.io/memory", plugintest.WithConfig(map[string]string{"scheme": "mem"}))
		content := bytes.Repeat([]byte("0123456789"), 10_000)
		put := func(key string, body io.Reader) error {
			return store.PutObject(ctx, &osv1.PutObjectInput{Bucket: "b", Key: key, Body: body})
		}
		require.NoError(t, put("a/large", bytes.NewReader(content)))
		require.NoError(t, put("a/empty", bytes.NewReader(nil)))
		require.ErrorContains(t, put("a/broken", iotest.ErrReader(errors.New("cable cut"))), "cable cut")
		list, err := store.ListObjects(ctx, &osv1.ListObjectsInput{Bucket: "b", Prefix: "a/"})
		require.NoError(t, err)
		require.Equal(t, []string{"a/empty", "a/large"}, list.Keys)
		folders, err := store.ListCommonPrefixes(ctx, &osv1.ListCommonPrefixesInput{Bucket: "b", Delimiter: "/"})
		require.NoError(t, err)
		require.Equal(t, []string{"a/"}, folders.Prefixes)
		object, err := store.GetObject(ctx, &osv1.GetObjectInput{Bucket: "b", Key: "a/large"})
		require.NoError(t, err)
		got, err := io.ReadAll(object.Body)
		require.NoError(t, err)
		require.Equal(t, content, got)
		require.NoError(t, object.Body.Close())
		object, err = store.GetObject(ctx, &osv1.GetObjectInput{Bucket: "b", Key: "nothing"})
		require.NoError(t, err)
		_, err = io.ReadAll(object.Body)
		require.EqualError(t, err, "ObjectStore(example.io/memory): no object nothing in bucket b")
		require.ErrorIs(t, err, framework.ErrNotFound)
		require.NoError(t, object.Body.Close())
		signed, err := store.CreateSignedURL(ctx, &osv1.CreateSignedURLInput{Bucket: "b", Key: "a/large", TTL: time.Second})
		require.NoError(t, err)
		require.Equal(t, "mem://b/a/large?ttl=1000000000", signed.URL)
		require.NoError(t, store.DeleteObject(ctx, &osv1.DeleteObjectInput{Bucket: "b", Key: "a/large"}))
		exists, err := store.ObjectExists(ctx, &osv1.ObjectExistsInput{Bucket: "b", Key: "a/large"})
		require.NoError(t, err)
		require.False(t, exists.Exists)
	})
	t.Run("QueueAdmission v1", func(t *testing.T) {
		t.Parallel()
		snapshot := &qav1.DecideInput{Now: began, Limit: 2, Running: []qav1.Backup{{Name: "a", Started: began}},
			Queued: []qav1.Backup{{Name: "b"}, {Name: "c"}}}
		decision, err := kinds.QueueAdmissionV1("example.io/first-come").Decide(ctx, snapshot)
		require.NoError(t, err)
		require.Equal(t, &qav1.DecideOutput{
			Admit: []string{"b"}, Waits: []qav1.Wait{{Name: "c", Reason: "Limit", Message: "2 backups run or are about to"}},
		}, decision)
		closed := kinds.QueueAdmissionV1("example.io/first-come", plugintest.WithConfig(map[string]bool{"closed": true}))
		decision, err = closed.Decide(ctx, snapshot)
		require.NoError(t, err)
		require.Empty(t, decision.Admit)
		_, err = kinds.QueueAdmissionV1("example.io/first-come", plugintest.WithConfig(map[string]bool{"opne": true})).Decide(
			ctx, snapshot,
		)
		require.ErrorContains(t, err, "opne")
		require.ErrorIs(t, err, framework.ErrInvalid)
	})
	t.Run("LoadSoothing v1", func(t *testing.T) {
		t.Parallel()
		request := &lsv1.AdmitInput{Now: began, Limit: 3, Load: lsv1.Load{Kind: "DataUpload", Name: "u"},
			Counts: []lsv1.Count{{Kind: "DataUpload", Accepted: 1, Prepared: 2}}}
		decision, err := kinds.LoadSoothingV1("example.io/limit").Admit(ctx, request)
		require.NoError(t, err)
		require.Equal(t, &lsv1.AdmitOutput{Reason: "3 loads are being prepared"}, decision)
	})
	t.Run("DataMover v1", func(t *testing.T) {
		t.Parallel()
		mover := kinds.DataMoverV1("example.io/shelf")
		repository := dmv1.Repository{Config: map[string]string{"path": t.TempDir(), "bucket": "b"}, Path: "plugins/shop"}
		volume, target := t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(volume, "a"), []byte("content"), 0o600))
		checked, err := mover.Check(ctx, &dmv1.CheckInput{Repository: repository, Depth: dmv1.Data, Create: true})
		require.NoError(t, err)
		require.Equal(t, &dmv1.CheckOutput{Created: true, Warnings: []string{"data"}}, checked)
		var seen []dmv1.Progress
		backup, err := mover.Backup(ctx, &dmv1.BackupInput{
			Repository: repository, Key: "k", Volume: dmv1.Volume{Path: volume}, Parent: "p", Tags: map[string]string{
				"ns": "shop",
			},
			Report: func(p dmv1.Progress) { seen = append(seen, p) },
		})
		require.NoError(t, err)
		require.Equal(t, &dmv1.BackupOutput{SnapshotID: "copy-k", Warnings: []string{"parent p, tag shop"}}, backup)
		require.Equal(t, []dmv1.Progress{{Activity: "copying " + volume}}, seen)
		restore := &dmv1.RestoreInput{Repository: repository, SnapshotID: "copy-k", Volume: dmv1.Volume{Path: target}}
		restored, err := mover.Restore(ctx, restore)
		require.NoError(t, err)
		require.EqualValues(t, 7, restored.Bytes)
		require.FileExists(t, filepath.Join(target, "a"))
		_, err = mover.Forget(ctx, &dmv1.ForgetInput{Repository: repository, SnapshotIDs: []string{"copy-k"}})
		require.NoError(t, err)
		_, err = mover.Restore(ctx, restore)
		require.ErrorIs(t, err, framework.ErrNotFound)
		maintained, err := mover.Maintain(ctx, &dmv1.MaintainInput{Repository: repository})
		require.NoError(t, err)
		require.EqualValues(t, 3, maintained.FreedBytes)
	})
	t.Run("ManifestWriter v1", func(t *testing.T) {
		t.Parallel()
		writer, artifacts := kinds.ManifestWriterV1("example.io/inventory"), plugintest.Artifacts{}
		require.NoError(t, writer.Write(ctx, &mwv1.WriteInput{Backup: nightly, Artifacts: artifacts, Items: plugintest.Items(
			&mwv1.Item{Resource: "pods", Namespace: "shop", Name: "a"}, &mwv1.Item{Resource: "pods", Namespace: "shop",
				Name: "b"},
		)}))
		require.Len(t, artifacts, 1)
		require.Equal(t, "pods shop/a\npods shop/b\n", artifacts["inventory.txt"].String())
		givenUp := errors.New("given up")
		require.ErrorIs(t, writer.Write(ctx, &mwv1.WriteInput{Backup: nightly, Artifacts: artifacts,
			Items: func(yield func(*mwv1.Item, error) bool) {
				yield(nil, givenUp)
			}}), givenUp)
	})
}
