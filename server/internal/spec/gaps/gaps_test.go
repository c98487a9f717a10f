package gaps

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// gap marks a field in the tables below that has no effect and is named in a warning.
const gap = "(named in a warning)"

const (
	operations     = "server/test/operations TestAcceptOperations_Timeouts"
	backupFilters  = "server/internal/engine/backup TestAcceptBackup_Filters"
	restoreFilters = "server/internal/engine/restore TestAcceptRestore_Filters"
	snapshots      = "server/test/volumes TestAcceptVolumes_Snapshots"
	files          = "server/test/nodeagent TestAcceptVolumes_FSBackup"
	csi            = "server/test/volumes TestAcceptVolumes_CSISnapshots"
	groups         = "server/test/volumes TestAcceptVolumes_Groups"
	movement       = "server/test/nodeagent TestAcceptVolumes_CSIDataMoved"
	restoreHooks   = "plugins/itemactions/pods TestInitContainersOfHooksAreAdded"
)

// backupFields names for each field of a BackupSpec the test that shows its effect, by directory and name. The entry of
// a field is also that of the fields below it without an entry.
func backupFields() map[string]string {
	return map[string]string{
		"spec.metadata":           "server/internal/control/schedules TestNewBackupCopiesFromTheSchedule",
		"spec.includedNamespaces": backupFilters, "spec.excludedNamespaces": backupFilters,
		"spec.includedResources": backupFilters, "spec.excludedResources": backupFilters,
		"spec.includedClusterScopedResources": backupFilters, "spec.excludedClusterScopedResources": backupFilters,
		"spec.includedNamespaceScopedResources": backupFilters, "spec.excludedNamespaceScopedResources": backupFilters,
		"spec.includeClusterResources": backupFilters,
		"spec.labelSelector":           backupFilters, "spec.orLabelSelectors": backupFilters,
		"spec.hooks":                  "server/internal/engine/hook TestHooksOfABackupAreSelected",
		"spec.orderedResources":       "server/internal/engine/backup TestOrderedResourcesComeFirst",
		"spec.storageLocation":        "server/internal/control/backups TestLocationsAreValidated",
		"spec.resourcePolicy":         "server/internal/engine/backup TestRulesOfThePolicyLimitWhatIsBackedUp",
		"spec.itemOperationTimeout":   operations,
		"spec.defaultVolumesToRestic": "server/internal/control/backups TestDefaultsAreWrittenIntoTheSpec",

		"spec.ttl":             "server/test/backups TestAcceptBackup_ExpiryAndSync",
		"spec.snapshotVolumes": snapshots, "spec.volumeSnapshotLocations": snapshots, "spec.volumeGroupSnapshotLabelKey": groups,
		"spec.csiSnapshotTimeout": csi, "spec.snapshotMoveData": movement, "spec.datamover": movement,
		"spec.defaultVolumesToFsBackup": files,
		"spec.uploaderConfig":           files,
		"spec.backupType":               gap,
	}
}

func restoreFields() map[string]string {
	const hooks = "spec.hooks.resources[]."
	return map[string]string{
		"spec.backupName":         "server/internal/control/restores TestSourceOfARestore",
		"spec.scheduleName":       "server/internal/control/restores TestSourceOfARestore",
		"spec.includedNamespaces": restoreFilters, "spec.excludedNamespaces": restoreFilters,
		"spec.includedResources": restoreFilters, "spec.excludedResources": restoreFilters,
		"spec.includeClusterResources": restoreFilters,
		"spec.labelSelector":           restoreFilters, "spec.orLabelSelectors": restoreFilters,
		"spec.namespaceMapping":       restoreFilters,
		"spec.restoreStatus":          "server/internal/engine/restore TestStatusIsRestoredOnRequest",
		"spec.preserveNodePorts":      "plugins/itemactions/services TestOnlyChosenNodePortsAreKept",
		"spec.existingResourcePolicy": "server/internal/engine/restore TestExistingObjects",
		"spec.resourceModifier":       "server/internal/control/restores TestReferencesOfARestoreAreReadBeforeTheStart",
		"spec.resourcePolicy":         "server/internal/control/restores TestReferencesOfARestoreAreReadBeforeTheStart",
		"spec.itemOperationTimeout":   operations,

		hooks + "name":               restoreHooks,
		hooks + "includedNamespaces": restoreHooks, hooks + "excludedNamespaces": restoreHooks,
		hooks + "labelSelector":                   restoreHooks,
		hooks + "postHooks[].init.initContainers": restoreHooks,
		hooks + "includedResources":               gap, hooks + "excludedResources": gap,
		hooks + "postHooks[].exec": "server/internal/engine/hook TestHooksOfARestoreAreSelected", hooks +
			"postHooks[].init.timeout": gap,

		"spec.restorePVs": snapshots, "spec.uploaderConfig": files,
		"spec.skipDefaultResourceModifier": "server/internal/control/restores TestDefaultModifiersOfARestore",
	}
}

// paths returns the paths of all fields of a struct, by the names in JSON. Types of other packages have no fields here.
func paths(t reflect.Type, at string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			at += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[velerov1.Backup]().PkgPath() {
		return []string{strings.TrimSuffix(at, "[]")}
	}
	var all []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all = append(all, paths(t.Field(i).Type, at+"."+name)...)
	}
	return all
}

// covered returns the entry of a table for a field, or for one above it.
func covered(table map[string]string, field string) string {
	for at := field; ; at = at[:strings.LastIndexByte(at, '.')] {
		if _, ok := table[strings.TrimSuffix(at, "[]")]; ok {
			return strings.TrimSuffix(at, "[]")
		}
		if !strings.Contains(at, ".") {
			return ""
		}
	}
}

// TestAcceptBackup_EverySpecField requires that each field of the specs of Backup, Restore and Schedule either has
// an effect, which the table proves by naming what shows it, or is named in a warning. A new field fails it. The tables
// of the server's flags are in package config. That the warnings reach the log, the results and the events of a real
// run is shown in server/test/volumes.
func TestAcceptBackup_EverySpecField(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, of reflect.Type, table map[string]string, listed []string) {
		t.Helper()
		used := map[string]bool{}
		for _, field := range paths(of, "spec") {
			entry := covered(table, field)
			require.NotEmpty(t, entry, "%s is not in the table: name what shows that it has an effect, or add it to the gaps",
				field)
			used[entry] = true
		}
		for entry, shown := range table {
			require.True(t, used[entry], "%s is in the table and not in the type", entry)
			require.Equal(t, shown == gap, slices.Contains(listed, entry), entry)
			requireProof(t, entry, shown)
		}
	}
	t.Run("Backup", func(t *testing.T) {
		t.Parallel()
		check(t, reflect.TypeFor[velerov1.BackupSpec](), backupFields(), fields(Backup()))
	})
	t.Run("Restore", func(t *testing.T) {
		t.Parallel()
		check(t, reflect.TypeFor[velerov1.RestoreSpec](), restoreFields(), fields(Restore()))
	})
	t.Run("Schedule", func(t *testing.T) {
		t.Parallel()
		const copied = "server/internal/control/schedules TestNewBackupCopiesFromTheSchedule"
		check(t, reflect.TypeFor[velerov1.ScheduleSpec](), map[string]string{
			"spec.template": copied, "spec.schedule": "server/internal/control/schedules TestScheduleCreatesBackupsOnTime",
			"spec.useOwnerReferencesInBackup": copied, "spec.paused": "server/internal/control/schedules " +
				"TestPausedScheduleCreatesNothing",
			"spec.skipImmediately": "server/internal/control/schedules TestSkipImmediately",
		}, nil)
	})
	t.Run("warnings of a backup", func(t *testing.T) {
		t.Parallel()
		yes, no := true, false
		requireWarnings(t, VolumesWithoutCSI(), velerov1.BackupSpec{
			VolumeGroupSnapshotLabelKey: "mine", CSISnapshotTimeout: metav1.Duration{Duration: time.Hour},
			SnapshotMoveData: &yes, DataMover: "mine",
		}, velerov1.BackupSpec{ // what clients and the server write into every spec
			VolumeGroupSnapshotLabelKey: "velero.io/volume-group", CSISnapshotTimeout: metav1.Duration{
				Duration: 10 * time.Minute,
			},
			SnapshotMoveData: &no,
		})
		requireWarnings(t, Backup(), velerov1.BackupSpec{BackupType: velerov1.BackupTypeFull},
			velerov1.BackupSpec{BackupType: velerov1.BackupTypeIncremental})
	})
	t.Run("warnings of a restore", func(t *testing.T) {
		t.Parallel()
		hook := func(change func(*velerov1.RestoreResourceHookSpec)) velerov1.RestoreSpec {
			h := velerov1.RestoreResourceHookSpec{Name: "h",
				PostHooks: []velerov1.RestoreResourceHook{{Init: &velerov1.InitRestoreHook{}}}}
			change(&h)
			return velerov1.RestoreSpec{Hooks: velerov1.RestoreHooks{Resources: []velerov1.RestoreResourceHookSpec{h}}}
		}
		all := hook(func(h *velerov1.RestoreResourceHookSpec) {
			h.PostHooks[0].Init.Timeout = metav1.Duration{Duration: time.Hour}
			h.PostHooks = append(h.PostHooks, velerov1.RestoreResourceHook{Exec: &velerov1.ExecRestoreHook{}})
			h.IncludedResources, h.ExcludedResources = []string{"deployments"}, []string{"jobs"}
		})
		none := hook(func(h *velerov1.RestoreResourceHookSpec) { h.IncludedResources = []string{"Pods"} })
		requireWarnings(t, Restore(), all, none)
	})
}

// requireProof requires that the test exists which shows the effect of a field, and that the tests beside it set that
// field.
func requireProof(t *testing.T, field, shown string) {
	t.Helper()
	if shown == gap {
		return
	}
	dir, test, found := strings.Cut(shown, " ")
	require.True(t, found, "%s: want a directory and the name of a test, not %q", field, shown)
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", dir, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	require.Contains(t, all.String(), "func "+test+"(t *testing.T)", field)
	name := field[strings.LastIndexByte(field, '.')+1:]
	require.Regexp(t, `(?i)\b`+name+`\b`, all.String(), "no test in %s mentions %s", dir, field)
}

func fields[S any](gaps []Gap[S]) []string {
	var names []string
	for _, g := range gaps {
		names = append(names, g.Field)
	}
	return names
}

// requireWarnings requires that one spec has the warnings of all gaps, and that the other and an empty one have none.
func requireWarnings[S any](t *testing.T, gaps []Gap[S], all, none S) {
	t.Helper()
	warnings := Warnings(gaps, &all)
	require.Len(t, warnings, len(gaps))
	for i, g := range gaps {
		require.True(t, strings.HasPrefix(warnings[i], g.Field+": "), warnings[i])
	}
	require.Equal(t, strings.Join(fields(gaps), ", "), Fields(gaps, &all))
	require.Empty(t, Warnings(gaps, &none))
	require.Empty(t, Warnings(gaps, new(S)))
}

func TestUnknownFieldsAreNamed(t *testing.T) {
	t.Parallel()
	raw := map[string]any{
		"kind": "Backup", "metadata": map[string]any{"name": "b", "future": "x"}, "status": map[string]any{"future": "x"},
		"spec": map[string]any{
			"ttl": "1h", "includedNamespaces": []any{"a"}, "futureMode": "Fast",
			"hooks":         map[string]any{"resources": []any{map[string]any{"name": "h", "futureHook": true}}},
			"labelSelector": map[string]any{"matchLabels": map[string]any{"any": "label"}},
		},
	}
	require.Equal(t, []string{
		"spec.futureMode: this server does not know the field, so it has no effect",
		"spec.hooks.resources[0].futureHook: this server does not know the field, so it has no effect",
	}, Unknown(raw, new(velerov1.Backup)))
	raw = map[string]any{"spec": map[string]any{"template": map[string]any{"futureMode": "Fast"}, "schedule": 3}}
	require.Empty(t, Unknown(raw, new(velerov1.Schedule)), "other problems of the object are not its concern")
	raw["spec"] = map[string]any{"template": map[string]any{"futureMode": "Fast"}, "schedule": "@daily"}
	require.Equal(t, []string{"spec.template.futureMode: this server does not know the field, so it has no effect"},
		Unknown(raw, new(velerov1.Schedule)))
}
