package main

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

const name = "example.cleat.dev/small-mover"

// volumes and copies are the directories of all tests; each test has a namespace of its own.
var volumes, copies string

// TestMain sets the environment of an installation: plugins get the environment of the test.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		root, err := os.MkdirTemp("", "small-mover-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(root)
		volumes, copies = filepath.Join(root, "volumes"), filepath.Join(root, "copies")
		for variable, value := range map[string]string{
			"CLEAT_SMALL_MOVER_VOLUMES": volumes, "CLEAT_SMALL_MOVER_COPIES": copies, "CLEAT_STATE_DIR": filepath.Join(root,
				"state"),
		} {
			if err := os.Setenv(variable, value); err != nil {
				panic(err)
			}
		}
		return m.Run()
	}())
}

// unique returns the name of a namespace that no other test uses, nor this test in another run.
func unique(stem string) string { return stem + "-" + strings.ToLower(rand.Text()) }

func claim(t *testing.T, namespace string) *unstructured.Unstructured {
	return plugintest.Object(t,
		fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: %s, name: data}}`, namespace))
}

// fill writes files into the volume of the claim "data".
func fill(t *testing.T, namespace string, files int) {
	t.Helper()
	write(t, filepath.Join(volumes, namespace, "data"), files)
}

func write(t *testing.T, dir string, files int) {
	t.Helper()
	for i := range files {
		name := fmt.Sprintf("d%d/f%d", i%7, i)
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(strings.Repeat(name, 1+i%50)), 0o640)) //nolint:gosec // it is no secret
		require.NoError(t, os.Chtimes(file, time.Time{}, time.Unix(int64(1e9+i), 12345)))
	}
}

// content describes all files of a claim's volume.
func content(t *testing.T, namespace string) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := os.DirFS(filepath.Join(volumes, namespace, "data"))
	require.NoError(t, fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		require.NoError(t, err)
		file, err := entry.Info()
		all[path] = fmt.Sprint(file.Mode(), file.ModTime(), string(text))
		return err
	}))
	return all
}

// ended returns the last progress of an operation.
func ended(t *testing.T, progress func() (framework.OperationProgress, error)) framework.OperationProgress {
	t.Helper()
	var last framework.OperationProgress
	require.Eventually(t, func() bool {
		var err error
		last, err = progress()
		require.NoError(t, err)
		return last.Completed
	}, 5*time.Minute, 50*time.Millisecond)
	return last
}

func backedUp(
	t *testing.T, plugin *plugintest.Plugin, namespace string,
) (*unstructured.Unstructured, framework.OperationProgress) {
	t.Helper()
	action, of := plugin.AsyncBackupItemActionV1(name), plugintest.Backup("nightly")
	started, err := action.Start(t.Context(), &abiav1.StartInput{Item: claim(t, namespace), Backup: of, Key: "backup/" +
		namespace})
	require.NoError(t, err)
	return started.UpdatedItem, ended(t, func() (framework.OperationProgress, error) {
		return action.Progress(t.Context(), &abiav1.ProgressInput{OperationID: started.OperationID, Backup: of})
	})
}

func restored(
	t *testing.T, plugin *plugintest.Plugin, from *unstructured.Unstructured, namespace string,
) framework.OperationProgress {
	t.Helper()
	action, of := plugin.AsyncRestoreItemActionV1(name), plugintest.Restore("back", "nightly")
	item := from.DeepCopy()
	item.SetNamespace(namespace)
	started, err := action.Start(t.Context(), &ariav1.StartInput{Item: item, ItemFromBackup: from, Restore: of,
		Key: "restore/" + namespace})
	require.NoError(t, err)
	require.Empty(t, started.UpdatedItem.GetAnnotations(), "the annotation stands in the backup only")
	return ended(t, func() (framework.OperationProgress, error) {
		return action.Progress(t.Context(), &ariav1.ProgressInput{OperationID: started.OperationID, Restore: of})
	})
}

func TestDataReturnsIntoAnotherNamespace(t *testing.T) {
	t.Parallel()
	shop, other := unique("shop"), unique("other")
	fill(t, shop, 100)
	want := content(t, shop)
	require.Len(t, want, 100)
	plugin := plugintest.Start(t, plugintest.Build(t, "."))
	item, progress := backedUp(t, plugin, shop)
	require.Empty(t, progress.Err)
	require.Equal(t, "bytes", progress.Units)
	require.Positive(t, progress.NTotal)
	require.Equal(t, progress.NTotal, progress.NCompleted)

	require.Empty(t, restored(t, plugin, item, other).Err)
	require.Equal(t, want, content(t, other))
}

// The work is interrupted and repeated by the next process, which needs a lease to detect the end of the first one.
func TestCopyGoesOnAfterTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	killed, other := unique("killed"), unique("other")
	fill(t, killed, 2000)
	binary := plugintest.Build(t, ".")
	first, of := plugintest.Start(t, binary), plugintest.Backup("nightly")
	input := &abiav1.StartInput{Item: claim(t, killed), Backup: of, Key: "backup/" + killed}
	started, err := first.AsyncBackupItemActionV1(name).Start(t.Context(), input)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		asked := &abiav1.ProgressInput{OperationID: started.OperationID, Backup: of}
		progress, err := first.AsyncBackupItemActionV1(name).Progress(t.Context(), asked)
		require.NoError(t, err)
		return progress.NCompleted > 0
	}, 5*time.Minute, time.Millisecond)
	first.Kill()

	next := plugintest.Start(t, binary)
	item, progress := backedUp(t, next, killed)
	require.Empty(t, progress.Err)
	require.Equal(t, started.UpdatedItem, item)
	require.Empty(t, restored(t, next, item, other).Err)
	require.Equal(t, content(t, killed), content(t, other))
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	odd, good, taken, missing := unique("odd"), unique("good"), unique("taken"), unique("missing")
	fill(t, odd, 3)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(volumes, odd, "data", "link")))
	fill(t, good, 3)
	fill(t, taken, 1)
	require.NoError(t, os.WriteFile(filepath.Join(volumes, taken, "data", "d0", "f0"), []byte("precious"), 0o600))
	before := content(t, taken)
	plugin := plugintest.Start(t, plugintest.Build(t, "."))

	_, progress := backedUp(t, plugin, missing)
	require.Contains(t, progress.Err, filepath.Join(volumes, missing, "data")+": no such file or directory")
	_, progress = backedUp(t, plugin, odd)
	require.Contains(t, progress.Err, "link is L")
	require.Contains(t, progress.Err, "copies files and directories only")

	item, progress := backedUp(t, plugin, good)
	require.Empty(t, progress.Err)
	require.Contains(t, restored(t, plugin, item, taken).Err, "d0/f0 exists and differs: restore into an empty volume")
	require.Equal(t, before, content(t, taken))
}

func TestNamesOfItemsCannotLeaveTheDirectories(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Start(t, plugintest.Build(t, "."))
	item := claim(t, "shop")
	item.SetAnnotations(map[string]string{copyAnnotation: "../volumes/shop"})
	_, err := plugin.AsyncRestoreItemActionV1(name).Start(t.Context(), &ariav1.StartInput{
		Item: item, ItemFromBackup: item, Restore: plugintest.Restore("back", "nightly"), Key: "restore/outside",
	})
	require.ErrorIs(t, err, framework.ErrInvalid)
	item.SetNamespace("..")
	_, err = plugin.AsyncBackupItemActionV1(name).Start(t.Context(), &abiav1.StartInput{
		Item: item, Backup: plugintest.Backup("nightly"), Key: "backup/outside",
	})
	require.ErrorIs(t, err, framework.ErrInvalid)
}

func TestClaimWithoutCopyStartsNothing(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Start(t, plugintest.Build(t, "."))
	started, err := plugin.AsyncRestoreItemActionV1(name).Start(t.Context(), &ariav1.StartInput{
		Item: claim(t, "shop"), ItemFromBackup: claim(t, "shop"), Restore: plugintest.Restore("back", "nightly"),
		Key: "restore/none",
	})
	require.NoError(t, err)
	require.Empty(t, started.OperationID)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	fill(t, "conformance", 20)
	write(t, filepath.Join(volumes, "conformance", "sample"), 20) // of the claim in the rules
	write(t, filepath.Join(copies, "op-sample"), 20)
	item := claim(t, "conformance")
	item.SetAnnotations(map[string]string{copyAnnotation: "op-sample"})
	text, err := item.MarshalJSON()
	require.NoError(t, err)
	conformance.Test(t, conformance.Binary(plugintest.Build(t, ".")), conformance.WithItem(text))
}
