package conformance_test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// broken returns what was seen for the results with one of the outcomes, by "kind name: rule".
func broken(report *conformance.Report, outcomes ...conformance.Outcome) map[string]string {
	found := map[string]string{}
	for _, plugin := range report.Plugins {
		for _, result := range plugin.Results {
			for _, outcome := range outcomes {
				if result.Outcome == outcome {
					found[plugin.String()+": "+result.Rule] = result.Seen
				}
			}
		}
	}
	return found
}

func TestAcceptKinds_Conformance(t *testing.T) {
	t.Parallel()
	t.Run("planted defects", plantedDefects)
	t.Run("good plugins that are not built on framework", othersPlugins)
	t.Run("good plugins", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct {
			binary  string
			options []conformance.Option
			broken  []string // on purpose
		}{
			"the first plugin": {binary: "first-plugin"},
			"all kinds of an older plugin, one of which panics, one prints, and one forgets": {
				binary: "plugin",
				options: []conformance.Option{
					conformance.WithConfig("example.io/memory", map[string]string{"bucket": "bucket", "scheme": "memory"}), conformance.WithSizes(120, 2<<20),
				},
				broken: []string{
					"Process: stdout-quiet", "BackupItemAction example.io/panic: action-item",
					"ObjectStore example.io/memory: store-missing-bucket",
					"ObjectStore example.io/memory: store-restart",
				},
			},
			"all other kinds, which know every operation and end none": {
				binary: "kinds",
				options: []conformance.Option{
					conformance.WithConfig("example.io/san", map[string]string{"region": "x"}), conformance.WithVolume("vol-1", "z"),
					conformance.WithItem([]byte("{apiVersion: v1, kind: PersistentVolume, metadata: {name: own}, spec: {volume: vol-1}}")),
					conformance.WithConfig("example.io/first-come", map[string]string{"closed": "true"}),
				},
				broken: []string{
					"BackupItemActionV2 example.io/mover: operation-unknown", "RestoreItemActionV2 example.io/fetcher: operation-unknown",
					"AsyncBackupItemAction example.io/copier: operation-unknown", "AsyncRestoreItemAction example.io/copier: operation-unknown",
					"BackupItemActionV2 example.io/mover: operation-cancel-ends", "AsyncBackupItemAction example.io/copier: operation-cancel-ends",
					"BackupItemActionV2 example.io/mover: operation-own", "RestoreItemActionV2 example.io/fetcher: operation-own",
				},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				report, err := conformance.Run(t.Context(), conformance.Binary(program(t, test.binary)),
					append(test.options, conformance.WithOperationWait(100*time.Millisecond))...)
				require.NoError(t, err)
				found := broken(report, conformance.Failed, conformance.Warned)
				require.ElementsMatch(t, test.broken, slices.Collect(maps.Keys(found)), "%v", found)
			})
		}
	})
}

// plantedDefects proves that each rule finds the defects it is meant for, and no others: a plugin with one defect breaks the rule
// that the defect is named after, and those that it breaks inevitably.
func plantedDefects(t *testing.T) {
	t.Parallel()
	binary := program(t, "defects")
	output, err := exec.CommandContext(t.Context(), binary, "--list").Output()
	require.NoError(t, err)
	type planted struct {
		Name, Kind string
		Also       []string
		Waits      bool
	}
	var defects []planted
	require.NoError(t, json.Unmarshal(output, &defects))

	folder := t.TempDir()
	test := func(ctx context.Context, timeout time.Duration, kind string, args ...string) (*conformance.Report, error) {
		leakCalls := 0 // a plugin with another defect does not leak
		if args[0] == "--kind" || strings.HasPrefix(args[1], "leak-") {
			leakCalls = 40
		}
		options := []conformance.Option{
			conformance.WithOperationWait(100 * time.Millisecond), conformance.WithLeakCalls(leakCalls), conformance.WithTimeout(timeout),
		}
		switch kind {
		case "ObjectStore":
			path, err := os.MkdirTemp(folder, "store")
			if err != nil {
				return nil, err
			}
			if err := os.Mkdir(filepath.Join(path, "bucket"), 0o700); err != nil {
				return nil, err
			}
			options = append(options, conformance.WithConfig("", map[string]string{"path": path, "bucket": "bucket"}), conformance.WithSizes(120, 2<<20))
		case "VolumeSnapshotter":
			options = append(options, conformance.WithConfig("", map[string]string{"region": "x"}), conformance.WithVolume("vol-1", ""))
		case "QueueAdmission", "LoadSoothing", "ManifestWriter":
			options = append(options, conformance.WithConfig("example.io/defect", map[string]string{"mode": "slow"}))
		}
		return conformance.Run(ctx, conformance.Binary(binary, args...), options...)
	}
	slices.SortStableFunc(defects, func(a, b planted) int { // the slowest begin first
		return cmp.Compare(strconv.FormatBool(b.Waits), strconv.FormatBool(a.Waits))
	})
	kinds, rules := map[string]bool{}, map[string]bool{}
	var running errgroup.Group
	running.SetLimit(8) // they mostly wait
	run := func(name string, check func(t *testing.T)) {
		running.Go(func() error { t.Run(name, check); return nil })
	}
	for _, defect := range defects {
		rule, _, _ := strings.Cut(defect.Name, "/")
		kinds[defect.Kind], rules[rule] = true, true
		run(defect.Name, func(t *testing.T) {
			timeout := time.Minute
			if defect.Waits {
				timeout = 15 * time.Second
			}
			report, err := test(t.Context(), timeout, defect.Kind, "--defect", defect.Name)
			require.NoError(t, err)
			found := map[string]bool{}
			for key := range broken(report, conformance.Failed, conformance.Warned) {
				found[key[strings.LastIndex(key, " ")+1:]] = true
			}
			require.ElementsMatch(t, append(defect.Also, rule), slices.Collect(maps.Keys(found)),
				"%v", broken(report, conformance.Failed, conformance.Warned))
		})
	}
	for kind := range kinds {
		run("none in "+kind, func(t *testing.T) {
			report, err := test(t.Context(), time.Minute, kind, "--kind", kind)
			require.NoError(t, err)
			require.Empty(t, broken(report, conformance.Failed, conformance.Warned))
		})
	}
	require.NoError(t, running.Wait())
	for _, rule := range conformance.Rules() {
		require.True(t, rules[rule.ID], "no planted defect breaks the rule %s", rule.ID)
	}
}
