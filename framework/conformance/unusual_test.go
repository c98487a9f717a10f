package conformance_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// TestUnusualPluginsAreNotAccused proves that what is correct but rare breaks no rule.
func TestUnusualPluginsAreNotAccused(t *testing.T) {
	t.Parallel()
	binary := program(t, "defects")
	expected := map[string]func(t *testing.T, report *conformance.Report){
		"unusual action whose AppliesTo needs a cluster": func(t *testing.T, report *conformance.Report) {
			result := resultOf(t, report, "BackupItemAction", "action-applies-to")
			require.Equal(t, conformance.Skipped, result.Outcome)
			require.Contains(t, result.Seen, "AppliesTo needs a cluster, and none is given where it looks for one: ")
		},
		"unusual store whose signed URLs lead to a network of its own": func(t *testing.T, report *conformance.Report) {
			result := resultOf(t, report, "ObjectStore", "store-signed-url")
			require.Equal(t, conformance.Skipped, result.Outcome)
			require.Contains(t, result.Seen, "no server answers at the address of the URL: ")
		},
	}
	expected["unusual policy that waits for operations and restores"] = func(t *testing.T, report *conformance.Report) {
		require.Equal(t, conformance.Passed, resultOf(t, report, "QueueAdmission", "queue-blockers").Outcome,
			"there is a snapshot with operations and restores")
	}
	for _, selector := range []string{"Pod,persistentvolumeclaim", "CronJob", "Widget.example.io", "gadgets"} {
		expected["unusual selector "+selector] = func(t *testing.T, report *conformance.Report) {
			require.Equal(t, conformance.Passed, resultOf(t, report, "BackupItemAction", "action-own-answer").Outcome,
				"there are samples that it selects")
		}
	}
	for _, one := range plantedIn(t, binary) {
		if !one.Unusual {
			continue
		}
		t.Run(one.Name, func(t *testing.T) {
			t.Parallel()
			report, err := conformance.Run(t.Context(), conformance.Binary(binary, "--unusual", one.Name),
				append(defectOptions(t, one.Kind), conformance.WithLeakCalls(0))...)
			require.NoError(t, err)
			found := broken(report, conformance.Failed, conformance.Warned)
			require.Empty(t, slices.Collect(maps.Keys(found)), "%v", found)
			if check := expected[one.Name]; check != nil {
				check(t, report)
			}
		})
	}
}

func TestActionWhoseClusterIsGivenMustAnswer(t *testing.T) {
	t.Parallel()
	report, err := conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--unusual",
		"unusual action whose AppliesTo needs a cluster"),
		conformance.WithKubeconfig("/nowhere/config"), conformance.WithFamilyOf("action-applies-to"))
	require.NoError(t, err)
	result := resultOf(t, report, "BackupItemAction", "action-applies-to")
	require.Equal(t, conformance.Failed, result.Outcome)
	require.Contains(t, result.Seen, "the kubeconfig names no context")
}

// TestActionThatRunsInItsClusterOnlyIsNotAccused gives a kubeconfig to a plugin that does not read it.
func TestActionThatRunsInItsClusterOnlyIsNotAccused(t *testing.T) {
	t.Parallel()
	report, err := conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--unusual",
		"unusual action that takes its cluster from its pod"),
		conformance.WithKubeconfig("/nowhere/config"), conformance.WithFamilyOf("action-applies-to"))
	require.NoError(t, err)
	result := resultOf(t, report, "BackupItemAction", "action-applies-to")
	require.Equal(t, conformance.Skipped, result.Outcome, result.Seen)
}

// TestPoolOfConnectionsIsNoLeak makes calls that keep goroutines, until there are enough of them.
func TestPoolOfConnectionsIsNoLeak(t *testing.T) {
	t.Parallel()
	report, err := conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--unusual",
		"unusual action that keeps idle connections"),
		append(defectOptions(t, "BackupItemAction"), conformance.WithTimeout(patience), conformance.WithLeakCalls(40),
			conformance.WithFamilyOf("leak-goroutines"))...)
	require.NoError(t, err)
	result := resultOf(t, report, conformance.Process, "leak-goroutines")
	require.Equal(t, conformance.Passed, result.Outcome, result.Seen)
}

// filesBelow returns the paths of all files and empty directories in dir.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, path)
		}
		return err
	}))
	return all
}

func TestStoreWithoutConfigIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "conformance"), 0o700))
	report, err := conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--unusual",
		"unusual store that works without Init"),
		conformance.WithEnvironment("EXAMPLE_ROOT="+root), conformance.WithLeakCalls(0))
	require.NoError(t, err)
	require.Equal(t, conformance.Passed, resultOf(t, report, "ObjectStore", "store-before-init").Outcome)
	require.Empty(t, filesBelow(t, root))
}

func TestStoreWithFoldersStaysValidForHosts(t *testing.T) {
	t.Parallel()
	config := newBucket(t)
	root := config["path"]
	_, err := conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--unusual",
		"unusual store whose folders outlive their objects"),
		conformance.WithConfig("", config), conformance.WithSizes(10, 1<<20), conformance.WithFamilyOf("store-list"))
	require.NoError(t, err)
	require.Empty(t, filesBelow(t, root))
	left, err := os.ReadDir(filepath.Join(root, "folders"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "plugins", left[0].Name(), "a folder that hosts expect at the top of a bucket")
}

// newBucket returns the config of a store with an empty bucket.
func newBucket(t *testing.T) map[string]string {
	t.Helper()
	path := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(path, "bucket"), 0o700))
	return map[string]string{"path": path, "bucket": "bucket"}
}

func TestConfigOfOneKindIsNotGivenToAnother(t *testing.T) {
	t.Parallel()
	run := func(options ...conformance.Option) (*conformance.Report, error) {
		return conformance.Run(t.Context(), conformance.Binary(program(t, "defects"), "--kind",
			"ObjectStore,VolumeSnapshotter,QueueAdmission"),
			append(options, conformance.WithSizes(10, 1<<20), conformance.WithLeakCalls(0),
				conformance.WithFamilyOf("store-init"))...)
	}
	t.Run("each its own", func(t *testing.T) {
		t.Parallel()
		report, err := run(conformance.WithConfig("ObjectStore/example.io/defect", newBucket(t)),
			conformance.WithConfig("VolumeSnapshotter", map[string]string{"region": "x"}))
		require.NoError(t, err)
		require.Empty(t, broken(report, conformance.Failed, conformance.Warned))
		require.Equal(t, conformance.Passed, resultOf(t, report, "ObjectStore", "store-init").Outcome)
		require.Equal(t, conformance.Passed, resultOf(t, report, "VolumeSnapshotter", "snapshotter-init").Outcome)
	})
	t.Run("one for all", func(t *testing.T) {
		t.Parallel()
		report, err := run(conformance.WithConfig("example.io/defect", newBucket(t)))
		require.NoError(t, err)
		require.Empty(t, broken(report, conformance.Failed, conformance.Warned))
		require.Equal(t, conformance.Passed, resultOf(t, report, "ObjectStore", "store-init").Outcome)
		result := resultOf(t, report, "VolumeSnapshotter", "snapshotter-init")
		require.Equal(t, conformance.Skipped, result.Outcome)
		require.Contains(t, result.Seen, "it refuses the config that was given for several kinds; give it one of its own, "+
			"for VolumeSnapshotter/example.io/defect: ")
	})
	t.Run("a mistyped one", func(t *testing.T) {
		t.Parallel()
		_, err := run(conformance.WithConfig("example.io/defetc", newBucket(t)))
		require.ErrorContains(t, err,
			`serves no plugin "example.io/defetc" to configure; it serves: ObjectStore/example.io/defect, `)
	})
}
