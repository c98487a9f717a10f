package pluginhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// builtStockPlugins returns a directory with a plugin of each year, built once for all tests.
var builtStockPlugins = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(testBinaries, "stock")
	if err != nil {
		return "", err
	}
	for _, year := range stockplugins.Years() {
		if _, err := stockplugins.Build(year, dir); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// serverArguments returns flags of Velero servers, in all spellings, and some of this server that no old plugin knows.
func serverArguments() []string {
	return []string{
		"--features=EnableCSI,EnableAPIGroupVersions", "--log-level", "debug", "--log-format=json", "--uploader-type=kopia",
		"--default-volumes-to-fs-backup=true", "--default-backup-ttl=720h", "--restore-only=false", "-n", "velero",
		"--store-validation-frequency=1m0s", "--config", "/etc/cleat/cleat.yaml", "--lock-file=required",
		"--isolate-built-ins",
	}
}

const (
	stockObject  = `{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":"shop"},"spec":{"n":12345678901234567}}`
	stockRestore = `{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"r","namespace":"velero"}}`
)

func stockItem(kind, name string) []byte { return fmt.Appendf(nil, stockObject, kind, name) }

// TestAcceptPlugins_OfVendors runs plugins as vendors have shipped them for Velero over the years, unchanged, and
// calls every kind that they have.
func TestAcceptPlugins_OfVendors(t *testing.T) {
	t.Parallel()
	dir, err := builtStockPlugins()
	require.NoError(t, err)
	host := func(t *testing.T) *testHost {
		t.Helper()
		return newTestHost(t, dir, func(c *Config) { c.Args = serverArguments() })
	}
	h := host(t)
	t.Run("are found and negotiated", func(t *testing.T) {
		t.Parallel()
		var found []string
		for _, e := range h.Entries() {
			require.Empty(t, e.Quarantined, "%+v", e)
			require.Empty(t, e.PluginVersion+e.FrameworkVersion, "they have no PluginInfo")
			found = append(found, fmt.Sprintf("%s %s %s used=%t", filepath.Base(e.Command), e.Kind, e.Name, e.Used))
		}
		require.Equal(t, []string{
			"stock-2020 BackupItemAction velero.io/stock-2020-backup used=true",
			"stock-2020 VolumeSnapshotter velero.io/stock-2020 used=true",
			"stock-2020 ObjectStore velero.io/stock-2020 used=true",
			"stock-2020 RestoreItemAction velero.io/stock-2020-restore used=true",
			"stock-2022 BackupItemAction velero.io/stock-2022-backup used=true",
			"stock-2022 RestoreItemAction velero.io/stock-2022-restore used=true",
			"stock-2022 DeleteItemAction velero.io/stock-2022-delete used=true",
			"stock-2024 BackupItemAction velero.io/stock-2024 used=false",
			"stock-2024 BackupItemActionV2 velero.io/stock-2024 used=true",
			"stock-2024 RestoreItemActionV2 velero.io/stock-2024 used=true",
			"stock-2024 ItemBlockAction velero.io/stock-2024-block used=true",
		}, found)
	})
	require.Equal(t, map[string]int{"velero.io/stock-2020-backup": 0, "velero.io/stock-2022-backup": 0,
		"velero.io/stock-2024": 0},
		Concurrency(h, kinds.BackupItemActions()...), "they may rely on what Velero does")
	t.Run("2020 BackupItemAction", func(t *testing.T) { t.Parallel(); stock2020Backup(t, host(t)) })
	t.Run("2020 RestoreItemAction", func(t *testing.T) { t.Parallel(); stock2020Restore(t, host(t)) })
	t.Run("2020 ObjectStore", func(t *testing.T) { t.Parallel(); stock2020Store(t, host(t)) })
	t.Run("2020 VolumeSnapshotter", func(t *testing.T) { t.Parallel(); stock2020Snapshotter(t, host(t)) })
	t.Run("2022", func(t *testing.T) { t.Parallel(); stock2022(t, host(t)) })
	t.Run("2024 BackupItemAction", func(t *testing.T) { t.Parallel(); stock2024Backup(t, host(t)) })
	t.Run("2024 RestoreItemAction", func(t *testing.T) { t.Parallel(); stock2024Restore(t, host(t)) })
	t.Run("2024 ItemBlockAction", func(t *testing.T) { t.Parallel(); stock2024Block(t, host(t)) })
	t.Run("are started again after they died", func(t *testing.T) { t.Parallel(); stockDies(t, dir) })
	t.Run("say what they do not like about the command line", func(t *testing.T) {
		t.Parallel()
		h := newTestHost(t, dir, func(c *Config) { c.Args = []string{"--log-level=loud"} })
		for _, e := range h.Entries() {
			require.Contains(t, e.Quarantined, "parse the command line: invalid argument")
		}
	})
}

// stockRun begins a session, and returns its log. A line of these plugins does not name its session: it is in the log
// only if the process works for no other.
func stockRun(t *testing.T, h *testHost) (*Session, *lines) {
	t.Helper()
	log := &lines{}
	session := h.Session("", log.logger())
	t.Cleanup(session.Close)
	return session, log
}

// stockNamed returns the plugin of a kind with a name.
func stockNamed[H interface{ Name() string }](t *testing.T, session *Session, kind versioning.Kind[H], name string) H {
	t.Helper()
	for _, implementation := range All(session, kind) {
		if implementation.Name() == name {
			return implementation
		}
	}
	require.FailNow(t, "there is no "+kind.Name+" "+name)
	panic("unreachable")
}

// requireLogged waits for a line of the plugin with all the parts.
func requireLogged(t *testing.T, log *lines, parts ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
	lines:
		for line := range strings.Lines(log.String()) {
			for _, part := range parts {
				if !strings.Contains(line, part) {
					continue lines
				}
			}
			return true
		}
		return false
	}, longEnough, aMoment, "%q in\n%s", parts, log)
}

func stock2020Backup(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	action := stockNamed[backupitemaction.Action](t, session, kinds.BackupItemAction(), "velero.io/stock-2020-backup")
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, selector)

	result, err := action.Execute(t.Context(), stockItem("PersistentVolumeClaim", "data"), backupJSON)
	require.NoError(t, err)
	require.Contains(t, string(result.Item), `"annotations":{"stock":"2020"}`)
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "persistentvolumes", Name: "pv-1"}}, result.AdditionalItems)
	requireLogged(t, log, "[WARN]  stock backup action runs", "name=data", "@logSourceSetBy=plugin", "2020/main.go:")

	_, err = action.Execute(t.Context(), stockItem("PersistentVolumeClaim", "fails"), backupJSON)
	require.EqualError(t, err, "BackupItemAction(velero.io/stock-2020-backup): volume is busy")
	var failed *versioning.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "main.go", filepath.Base(failed.File()), "errors tell where they were made")
	require.Contains(t, failed.Function(), "backup.Execute")

	_, err = action.Execute(t.Context(), stockItem("PersistentVolumeClaim", "panics"), backupJSON)
	require.EqualError(t, err, "BackupItemAction(velero.io/stock-2020-backup): plugin panicked: no volume")
	_, err = action.Progress(t.Context(), "x", backupJSON)
	require.ErrorIs(t, err, versioning.ErrNoOperations)
}

func stock2020Restore(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	action := stockNamed[restoreitemaction.Action](t, session, kinds.RestoreItemAction(), "velero.io/stock-2020-restore")
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Zero(t, selector)
	item := stockItem("Pod", "web")
	result, err := action.Execute(t.Context(), restoreitemaction.Input{Item: item, ItemFromBackup: item,
		Restore: []byte(stockRestore)})
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{Item: item}, result)
	requireLogged(t, log, "[INFO]  stock restore action runs", "name=web")
	item = stockItem("Pod", "skipped")
	result, err = action.Execute(t.Context(), restoreitemaction.Input{Item: item, ItemFromBackup: item,
		Restore: []byte(stockRestore)})
	require.NoError(t, err)
	require.True(t, result.SkipRestore)
}

func stock2020Store(t *testing.T, h *testHost) {
	_, err := h.ObjectStore(t.Context(), "wrong", "stock-2020", map[string]string{"bucket": "vault", "colour": "red"})
	require.EqualError(t, err, "ObjectStore(velero.io/stock-2020): config has invalid key colour; valid keys are "+
		"bucket, prefix, region")
	store, err := h.ObjectStore(t.Context(), "default", "stock-2020", map[string]string{"bucket": "vault", "prefix": "p"})
	require.NoError(t, err)

	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 20 chunks of the wire
	require.NoError(t, store.PutObject(t.Context(), "vault", "a/b/one", bytes.NewReader(content)))
	require.NoError(t, store.PutObject(t.Context(), "vault", "a/two", strings.NewReader("2")))
	require.ErrorContains(t, store.PutObject(t.Context(), "other", "x", strings.NewReader("x")), `no bucket "other"`)
	exists, err := store.ObjectExists(t.Context(), "vault", "a/b/one")
	require.NoError(t, err)
	require.True(t, exists)
	reader, err := store.GetObject(t.Context(), "vault", "a/b/one")
	require.NoError(t, err)
	got, err := io.ReadAll(reader)
	require.NoError(t, errors.Join(err, reader.Close()))
	require.Equal(t, content, got)
	keys, err := store.ListObjects(t.Context(), "vault", "a/")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b/one", "a/two"}, keys)
	prefixes, err := store.ListCommonPrefixes(t.Context(), "vault", "a/", "/")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b/"}, prefixes)
	url, err := store.CreateSignedURL(t.Context(), "vault", "a/two", time.Minute)
	require.NoError(t, err)
	require.Regexp(t, `^memory://\d+/vault/a/two\?ttl=60000000000$`, url)
	require.NoError(t, store.DeleteObject(t.Context(), "vault", "a/two"))
	exists, err = store.ObjectExists(t.Context(), "vault", "a/two")
	require.NoError(t, err)
	require.False(t, exists)
	requireLogged(t, h.log, "stock store opened", "bucket=vault")
}

func stock2020Snapshotter(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	snapshotter := stockNamed[volumesnapshotter.Snapshotter](t, session, kinds.VolumeSnapshotter(), "velero.io/stock-2020")
	require.NoError(t, snapshotter.Init(t.Context(), map[string]string{"region": "east"}))
	volume := stockItem("PersistentVolume", "pv-1")
	id, err := snapshotter.GetVolumeID(t.Context(), volume)
	require.NoError(t, err)
	require.Equal(t, "vol-pv-1", id)
	info, err := snapshotter.GetVolumeInfo(t.Context(), id, "east-1")
	require.NoError(t, err)
	require.Equal(t, volumesnapshotter.Volume{Type: "ssd", Zone: "east-1", IOPS: 300}, info)
	snapshot, err := snapshotter.CreateSnapshot(t.Context(), id, "east-1", map[string]string{"backup": "nightly"})
	require.NoError(t, err)
	require.Equal(t, "vol-pv-1@nightly", snapshot)
	created, err := snapshotter.CreateVolumeFromSnapshot(t.Context(), snapshot, info)
	require.NoError(t, err)
	require.Equal(t, "vol-pv-1@nightly-ssd-east-1-300", created)
	changed, err := snapshotter.SetVolumeID(t.Context(), volume, created)
	require.NoError(t, err)
	require.Contains(t, string(changed), `"annotations":{"volume":"`+created+`"}`)
	require.NoError(t, snapshotter.DeleteSnapshot(t.Context(), snapshot))
	requireLogged(t, log, "stock snapshotter runs", "volume=vol-pv-1")
}

func stock2022(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	backup := stockNamed[backupitemaction.Action](t, session, kinds.BackupItemAction(), "velero.io/stock-2022-backup")
	selector, err := backup.AppliesTo(t.Context())
	require.NoError(t, err)
	want := framework.ResourceSelector{IncludedNamespaces: []string{"shop"}, ExcludedResources: []string{"events"},
		LabelSelector: "app=web"}
	require.Equal(t, want, selector)
	item := stockItem("Pod", "web")
	result, err := backup.Execute(t.Context(), item, backupJSON)
	require.NoError(t, err)
	require.Equal(t, &backupitemaction.Result{Item: item}, result)
	requireLogged(t, log, "[INFO]  stock backup action runs")
	_, err = backup.Execute(t.Context(), stockItem("Pod", strings.Repeat("x", 5<<20)), backupJSON)
	require.ErrorContains(t, err, "is larger than the 4194304 that the plugin takes", "it has gRPC's own limit")

	restore := stockNamed[restoreitemaction.Action](t, session, kinds.RestoreItemAction(), "velero.io/stock-2022-restore")
	restored, err := restore.Execute(t.Context(), restoreitemaction.Input{Item: item, ItemFromBackup: item,
		Restore: []byte(stockRestore)})
	require.NoError(t, err)
	require.Equal(t, []framework.ResourceIdentifier{{Group: "apps", Resource: "deployments", Namespace: "shop",
		Name: "web"}}, restored.AdditionalItems)
	requireLogged(t, log, "[INFO]  stock restore action runs")

	remove := stockNamed[deleteitemaction.Action](t, session, kinds.DeleteItemAction(), "velero.io/stock-2022-delete")
	selector, err = remove.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, selector)
	require.NoError(t, remove.Execute(t.Context(), item, backupJSON))
	require.EqualError(t, remove.Execute(t.Context(), stockItem("Pod", "stays"), backupJSON),
		"DeleteItemAction(velero.io/stock-2022-delete): it has to stay")
	requireLogged(t, log, "[INFO]  stock delete action runs")
}

func stock2024Backup(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	action := stockNamed[backupitemaction.Action](t, session, kinds.BackupItemAction(), "velero.io/stock-2024")
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"pods", "*.example.io"}}, selector)
	item := stockItem("Pod", "web")
	result, err := action.Execute(t.Context(), item, backupJSON)
	require.NoError(t, err)
	require.Equal(t, &backupitemaction.Result{
		Item: item, OperationID: "copy-1",
		PostOperationItems: []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: "shop", Name: "result"}},
	}, result)
	requireLogged(t, log, "[DEBUG] stock backup action runs", `error="nothing yet"`)
	progress, err := action.Progress(t.Context(), "copy-1", backupJSON)
	require.NoError(t, err)
	at := time.Date(2024, 5, 1, 12, 0, 0, 5000, time.UTC)
	require.Equal(t, framework.OperationProgress{
		Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "copying",
		Started: at, Updated: at.Add(time.Second),
	}, progress)
	_, err = action.Progress(t.Context(), "copy-2", backupJSON)
	require.EqualError(t, err, "BackupItemAction(velero.io/stock-2024): no operation copy-2")
	require.NoError(t, action.Cancel(t.Context(), "copy-1", backupJSON))
	require.Error(t, action.Cancel(t.Context(), "copy-2", backupJSON))
}

func stock2024Restore(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	action := stockNamed[restoreitemaction.Action](t, session, kinds.RestoreItemAction(), "velero.io/stock-2024")
	item := stockItem("Pod", "web")
	result, err := action.Execute(t.Context(), restoreitemaction.Input{Item: item, ItemFromBackup: item,
		Restore: []byte(stockRestore)})
	require.NoError(t, err)
	key := []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "shop", Name: "key"}}
	require.Equal(t, &restoreitemaction.Result{
		Item: item, OperationID: "copy-1", AdditionalItems: key, WaitForAdditionalItems: true,
		AdditionalItemsReadyTimeout: 90 * time.Second,
	}, result)
	requireLogged(t, log, "[ERROR] stock restore action runs")
	ready, err := action.AreAdditionalItemsReady(t.Context(), key, []byte(stockRestore))
	require.NoError(t, err)
	require.True(t, ready)
	ready, err = action.AreAdditionalItemsReady(t.Context(), nil, []byte(stockRestore))
	require.NoError(t, err)
	require.False(t, ready)
	progress, err := action.Progress(t.Context(), "copy-1", []byte(stockRestore))
	require.NoError(t, err)
	require.True(t, progress.Completed)
	require.NoError(t, action.Cancel(t.Context(), "copy-1", []byte(stockRestore)))
}

func stock2024Block(t *testing.T, h *testHost) {
	session, log := stockRun(t, h)
	action := stockNamed[itemblockaction.Action](t, session, kinds.ItemBlockAction(), "velero.io/stock-2024-block")
	related, err := action.GetRelatedItems(t.Context(), stockItem("Pod", "web"), backupJSON)
	require.NoError(t, err)
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "pods", Namespace: "shop", Name: "web-1"}}, related)
	requireLogged(t, log, "[INFO]  stock block action runs")
}

func stockDies(t *testing.T, dir string) {
	h := newTestHost(t, dir, func(c *Config) { c.Args = serverArguments() })
	session := h.Session("run", h.log.logger())
	defer session.Close()
	for _, action := range All(session, kinds.BackupItemActions()...) {
		_, err := action.AppliesTo(t.Context())
		require.NoError(t, err)
	}
	open := func() string {
		store, err := h.ObjectStore(ForRun(t.Context(), "run"), "default", "stock-2020", map[string]string{"bucket": "vault"})
		require.NoError(t, err)
		url, err := store.CreateSignedURL(t.Context(), "vault", "k", time.Minute)
		require.NoError(t, err)
		return url
	}
	var first int
	_, err := fmt.Sscanf(open(), "memory://%d/", &first)
	require.NoError(t, err)
	var sockets []string
	for _, p := range h.pool.Running() {
		sockets = append(sockets, p.Address.String())
		require.NoError(t, syscall.Kill(p.PID, syscall.SIGKILL))
	}
	requireReaped(t, first)
	h.requireProcesses(t, 0)
	require.Len(t, sockets, 4, "one of each year, and that of the store")
	for _, socket := range sockets {
		require.NoFileExists(t, socket)
	}
	var second int
	_, err = fmt.Sscanf(open(), "memory://%d/", &second)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.Equal(t, 2, strings.Count(h.log.String(), "[INFO]  stock store opened"), "Init is repeated: %s", h.log)
}
