package conformance_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// patience is how long a call of a plugin that answers may take on a busy machine.
const patience = 10 * time.Minute

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

func TestAcceptPlugins_Conformance(t *testing.T) {
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
					conformance.WithConfig("example.io/memory", map[string]string{"bucket": "bucket", "scheme": "memory"}),
					conformance.WithSizes(120, 2<<20),
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
					conformance.WithItem([]byte("{apiVersion: v1, kind: PersistentVolume, metadata: {name: own}, spec: {volume: " +
						"vol-1}}")),
					conformance.WithConfig("example.io/first-come", map[string]string{"closed": "true"}),
					conformance.WithPatience(time.Second, patience), // no operation ends
				},
				broken: []string{
					"BackupItemActionV2 example.io/mover: operation-unknown",
					"RestoreItemActionV2 example.io/fetcher: operation-unknown",
					"AsyncBackupItemAction example.io/copier: operation-unknown",
					"AsyncRestoreItemAction example.io/copier: operation-unknown",
					"BackupItemActionV2 example.io/mover: operation-cancel-ends",
					"AsyncBackupItemAction example.io/copier: operation-cancel-ends",
					"BackupItemActionV2 example.io/mover: operation-own", "RestoreItemActionV2 example.io/fetcher: operation-own",
				},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				report, err := conformance.Run(t.Context(), conformance.Binary(program(t, test.binary)),
					append(test.options, conformance.WithTimeout(patience), conformance.WithOperationWait(100*time.Millisecond))...)
				require.NoError(t, err)
				found := broken(report, conformance.Failed, conformance.Warned)
				require.ElementsMatch(t, test.broken, slices.Collect(maps.Keys(found)), "%v", found)
			})
		}
	})
}

// planted is a defect of the plugin in testdata/defects.
type planted struct {
	Name, Kind string
	Also       []string // other rules of the family that it breaks inevitably
	Waits      bool     // the suite runs into a timeout
	Unusual    bool     // it is correct
}

// plantedIn returns what can be planted in the plugin.
func plantedIn(t *testing.T, binary string) []planted {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), binary, "--list").Output()
	require.NoError(t, err)
	var all []planted
	require.NoError(t, json.Unmarshal(output, &all))
	return all
}

// rule returns the ID of the rule that the defect is named after.
func (p planted) rule() string {
	rule, _, _ := strings.Cut(p.Name, "/")
	return rule
}

// defectOptions returns the options of tests of testdata/defects with one kind. Waiting times are shorter than for
// users, whose plugins may be slow.
func defectOptions(t *testing.T, kind string) []conformance.Option {
	options := []conformance.Option{
		conformance.WithOperationWait(100 * time.Millisecond), conformance.WithPatience(10*time.Second, 10*time.Second),
		conformance.WithSizes(120, 2<<20),
		conformance.WithSlowCall(time.Hour), // a busy machine must not change what a rule can find
	}
	switch kind {
	case "ObjectStore", "DataMover":
		return append(options, conformance.WithConfig("", newBucket(t)))
	case "VolumeSnapshotter":
		return append(options, conformance.WithConfig("", map[string]string{"region": "x"}),
			conformance.WithVolume("vol-1", ""))
	case "QueueAdmission", "LoadSoothing", "ManifestWriter":
		return append(options, conformance.WithConfig("example.io/defect", map[string]string{"mode": "slow"}))
	}
	return options
}

// plantedDefects proves that each rule finds the defects it is meant for, and no others: a plugin with one defect
// breaks the rule that the defect is named after, and those that it breaks inevitably. A defect is tested by the rules
// of its family only; that the plugin without a defect keeps the rules of all families is tested for each kind.
func plantedDefects(t *testing.T) {
	t.Parallel()
	binary := program(t, "defects")
	defects := slices.DeleteFunc(plantedIn(t, binary), func(one planted) bool { return one.Unusual })
	kinds, rules := map[string]bool{}, map[string]bool{}
	var waiting, running errgroup.Group
	running.SetLimit(8) // they wait half of the time
	for _, defect := range defects {
		kinds[defect.Kind], rules[defect.rule()] = true, true
		group := &running
		if defect.Waits {
			group = &waiting
		}
		group.Go(func() error { t.Run(defect.Name, func(t *testing.T) { breaksItsRule(t, binary, defect) }); return nil })
	}
	for kind := range kinds {
		running.Go(func() error {
			t.Run("none in "+kind, func(t *testing.T) {
				report, err := conformance.Run(t.Context(), conformance.Binary(binary, "--kind", kind),
					append(defectOptions(t, kind), conformance.WithTimeout(patience), conformance.WithPatience(patience, patience),
						conformance.WithLeakCalls(40))...)
				require.NoError(t, err)
				require.Empty(t, broken(report, conformance.Failed, conformance.Warned))
			})
			return nil
		})
	}
	require.NoError(t, errors.Join(running.Wait(), waiting.Wait()))
	for _, rule := range conformance.Rules() {
		require.True(t, rules[rule.ID], "no planted defect breaks the rule %s", rule.ID)
	}
}

// breaksItsRule tests a plugin with a defect.
func breaksItsRule(t *testing.T, binary string, defect planted) {
	t.Helper()
	timeout, leakCalls, operations := patience, 0, 100*time.Millisecond
	if strings.Contains(defect.Name, "operation-cancel-ends/") || slices.Contains(defect.Also, "operation-cancel-ends") {
		operations = patience // its operations end
	}
	if defect.Waits {
		timeout = 30 * time.Second
	}
	if strings.HasPrefix(defect.Name, "leak-") {
		leakCalls = 40
	}
	report, err := conformance.Run(t.Context(), conformance.Binary(binary, "--defect", defect.Name),
		append(defectOptions(t, defect.Kind),
			conformance.WithTimeout(timeout), conformance.WithOperationWait(operations),
			conformance.WithLeakCalls(leakCalls), conformance.WithFamilyOf(defect.rule()))...)
	require.NoError(t, err)
	found := map[string]bool{}
	for key := range broken(report, conformance.Failed, conformance.Warned) {
		found[key[strings.LastIndex(key, " ")+1:]] = true
	}
	require.ElementsMatch(t, append(defect.Also, defect.rule()), slices.Collect(maps.Keys(found)),
		"%v", broken(report, conformance.Failed, conformance.Warned))
}
