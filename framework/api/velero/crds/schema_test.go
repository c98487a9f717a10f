package crds_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
)

// definition is the part of a CustomResourceDefinition that the tests read.
type definition struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			ListKind   string   `json:"listKind"`
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []version `json:"versions"`
	} `json:"spec"`
}

// version is one version of a definition.
type version struct {
	Name         string         `json:"name"`
	Served       bool           `json:"served"`
	Storage      bool           `json:"storage"`
	Subresources map[string]any `json:"subresources"`
	Columns      []column       `json:"additionalPrinterColumns"`
	Schema       struct {
		Root *schema `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// column is one column of kubectl get.
type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	JSONPath string `json:"jsonPath"`
	Format   string `json:"format"`
	Priority int    `json:"priority"`
}

// schema is the part of a structural schema that the tests read.
type schema struct {
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Description          string             `json:"description"`
	Properties           map[string]*schema `json:"properties"`
	Items                *schema            `json:"items"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Required             []string           `json:"required"`
	Enum                 []string           `json:"enum"`
	PreserveUnknown      bool               `json:"x-kubernetes-preserve-unknown-fields"`
}

// expectation is what Velero's definition of a kind contains.
type expectation struct {
	version    string // v1 if empty
	plural     string
	shortNames []string
	columns    []column
	required   []string // paths of the fields that may not be absent
	enums      map[string][]string
}

// backupTemplateRequired has the paths of the required fields in the spec of a backup.
var backupTemplateRequired = []string{
	".hooks.resources[].name",
	".hooks.resources[].post[].exec",
	".hooks.resources[].post[].exec.command",
	".hooks.resources[].pre[].exec",
	".hooks.resources[].pre[].exec.command",
	".labelSelector.matchExpressions[].key",
	".labelSelector.matchExpressions[].operator",
	".hooks.resources[].labelSelector.matchExpressions[].key",
	".hooks.resources[].labelSelector.matchExpressions[].operator",
	".orLabelSelectors[].matchExpressions[].key",
	".orLabelSelectors[].matchExpressions[].operator",
	".resourcePolicy.kind",
	".resourcePolicy.name",
}

func below(prefix string, paths []string) []string {
	var moved []string
	for _, path := range paths {
		moved = append(moved, prefix+path)
	}
	return moved
}

// expectations returns what is expected of each kind.
func expectations() map[string]expectation {
	var (
		age       = column{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}
		hookModes = []string{"Continue", "Fail"}
		usability = []string{"Available", "Unavailable"}
		access    = []string{"ReadOnly", "ReadWrite"}
		engines   = []string{"kopia", "restic", ""}
		systems   = []string{"auto", "linux", "windows"}
		types     = []string{"Full", "Incremental"}
		loads     = []string{"New", "Accepted", "Prepared", "InProgress", "Canceling", "Canceled", "Completed", "Failed"}

		status      = column{Name: "Status", Type: "string", JSONPath: ".status.phase"}
		started     = column{Name: "Started", Type: "date", JSONPath: ".status.startTimestamp"}
		done        = column{Name: "Bytes Done", Type: "integer", JSONPath: ".status.progress.bytesDone", Format: "int64"}
		total       = column{Name: "Total Bytes", Type: "integer", JSONPath: ".status.progress.totalBytes", Format: "int64"}
		incremental = column{Name: "Incremental Bytes", Type: "integer", JSONPath: ".status.incrementalBytes",
			Format: "int64", Priority: 10}
		location = column{Name: "Storage Location", Type: "string", JSONPath: ".spec.backupStorageLocation"}
		node     = column{Name: "Node", Type: "string", JSONPath: ".status.node"}
	)
	return map[string]expectation{
		"Backup": {
			plural: "backups", shortNames: []string{"bak"},
			// Velero 1.18 has none, so kubectl only shows the age.
			columns: []column{
				{Name: "Status", Type: "string", JSONPath: ".status.phase"},
				{Name: "Queue", Type: "integer", JSONPath: ".status.queuePosition"},
				age,
			},
			required: below(".spec", backupTemplateRequired),
			enums: map[string][]string{
				".status.phase": {
					"New", "Queued", "ReadyToStart", "FailedValidation", "InProgress",
					"WaitingForPluginOperations", "WaitingForPluginOperationsPartiallyFailed",
					"Finalizing", "FinalizingPartiallyFailed", "Completed", "PartiallyFailed", "Failed", "Deleting",
				},
				".spec.hooks.resources[].pre[].exec.onError":  hookModes,
				".spec.hooks.resources[].post[].exec.onError": hookModes,
				".spec.backupType":                            types,
			},
		},
		"Restore": {
			plural: "restores", shortNames: []string{"rst"},
			columns: []column{
				{Name: "Backup", Type: "string", JSONPath: ".spec.backupName"},
				{Name: "Status", Type: "string", JSONPath: ".status.phase"},
				age,
			},
			required: []string{
				".spec.hooks.resources[].name",
				".spec.hooks.resources[].postHooks[].exec.command",
				".spec.hooks.resources[].labelSelector.matchExpressions[].key",
				".spec.hooks.resources[].labelSelector.matchExpressions[].operator",
				".spec.labelSelector.matchExpressions[].key",
				".spec.labelSelector.matchExpressions[].operator",
				".spec.orLabelSelectors[].matchExpressions[].key",
				".spec.orLabelSelectors[].matchExpressions[].operator",
				".spec.resourceModifier.kind",
				".spec.resourceModifier.name",
				".spec.resourcePolicy.kind",
				".spec.resourcePolicy.name",
			},
			enums: map[string][]string{
				".status.phase": {
					"New", "FailedValidation", "InProgress",
					"WaitingForPluginOperations", "WaitingForPluginOperationsPartiallyFailed",
					"Finalizing", "FinalizingPartiallyFailed", "Completed", "PartiallyFailed", "Failed",
				},
				".spec.hooks.resources[].postHooks[].exec.onError": hookModes,
			},
		},
		"Schedule": {
			plural: "schedules", shortNames: []string{"sched"},
			columns: []column{
				{Name: "Status", Type: "string", JSONPath: ".status.phase"},
				{Name: "Schedule", Type: "string", JSONPath: ".spec.schedule"},
				{Name: "LastBackup", Type: "date", JSONPath: ".status.lastBackup"},
				age,
				{Name: "Paused", Type: "boolean", JSONPath: ".spec.paused"},
			},
			required: append([]string{".spec.schedule", ".spec.template"}, below(".spec.template", backupTemplateRequired)...),
			enums: map[string][]string{
				".status.phase": {"New", "Enabled", "FailedValidation"},
				".spec.template.hooks.resources[].pre[].exec.onError":  hookModes,
				".spec.template.hooks.resources[].post[].exec.onError": hookModes,
				".spec.template.backupType":                            types,
			},
		},
		"BackupStorageLocation": {
			plural:     "backupstoragelocations",
			shortNames: []string{"bsl"},
			columns: []column{
				{Name: "Phase", Type: "string", JSONPath: ".status.phase"},
				{Name: "Last Validated", Type: "date", JSONPath: ".status.lastValidationTime"},
				age,
				{Name: "Default", Type: "boolean", JSONPath: ".spec.default"},
			},
			required: []string{
				".spec.provider", ".spec.objectStorage", ".spec.objectStorage.bucket",
				".spec.credential.key", ".spec.objectStorage.caCertRef.key",
			},
			enums: map[string][]string{
				".spec.accessMode": access, ".status.accessMode": access, ".status.phase": usability,
			},
		},
		"VolumeSnapshotLocation": {
			plural:     "volumesnapshotlocations",
			shortNames: []string{"vsl"},
			required:   []string{".spec.provider", ".spec.credential.key"},
			enums:      map[string][]string{".status.phase": usability},
		},
		"DeleteBackupRequest": {
			plural: "deletebackuprequests", shortNames: []string{"dbr"},
			columns: []column{
				{Name: "BackupName", Type: "string", JSONPath: ".spec.backupName"},
				{Name: "Status", Type: "string", JSONPath: ".status.phase"},
			},
			required: []string{".spec.backupName"},
			enums:    map[string][]string{".status.phase": {"New", "InProgress", "Processed"}},
		},
		"DownloadRequest": {
			plural: "downloadrequests", shortNames: []string{"dreq"},
			columns: []column{
				{Name: "Target Kind", Type: "string", JSONPath: ".spec.target.kind"},
				{Name: "Target Name", Type: "string", JSONPath: ".spec.target.name"},
				{Name: "Status", Type: "string", JSONPath: ".status.phase"},
				age,
			},
			required: []string{".spec.target", ".spec.target.kind", ".spec.target.name"},
			enums: map[string][]string{
				".status.phase": {"New", "Processed", "Failed"},
				".spec.target.kind": {
					"BackupLog", "BackupContents", "BackupVolumeSnapshots", "BackupItemOperations",
					"BackupResourceList", "BackupResults", "RestoreLog", "RestoreResults", "RestoreResourceList",
					"RestoreItemOperations", "CSIBackupVolumeSnapshots", "CSIBackupVolumeSnapshotContents",
					"BackupVolumeInfos", "RestoreVolumeInfo",
				},
			},
		},
		"ServerStatusRequest": {
			plural:     "serverstatusrequests",
			shortNames: []string{"ssr"},
			required:   []string{".status.plugins[].name", ".status.plugins[].kind"},
			enums:      map[string][]string{".status.phase": {"New", "Processed"}},
		},
		"PodVolumeBackup": {
			plural: "podvolumebackups", shortNames: []string{"pvb"},
			columns: []column{
				status, started, done, total, incremental, location, age, node,
				{Name: "Uploader", Type: "string", JSONPath: ".spec.uploaderType"},
			},
			required: below(".spec", []string{".node", ".pod", ".volume", ".backupStorageLocation", ".repoIdentifier"}),
			enums:    map[string][]string{".status.phase": loads, ".spec.uploaderType": engines},
		},
		"PodVolumeRestore": {
			plural: "podvolumerestores", shortNames: []string{"pvr"},
			columns: []column{
				status, started, done, total, location, age, node,
				{Name: "Uploader Type", Type: "string", JSONPath: ".spec.uploaderType"},
			},
			required: below(".spec", []string{
				".pod", ".volume", ".backupStorageLocation", ".repoIdentifier", ".snapshotID", ".sourceNamespace",
			}),
			enums: map[string][]string{".status.phase": loads, ".spec.uploaderType": engines},
		},
		"BackupRepository": {
			plural: "backuprepositories", shortNames: []string{"repo"},
			columns:  []column{age, {Name: "Repository Type", Type: "string", JSONPath: ".spec.repositoryType"}},
			required: below(".spec", []string{".volumeNamespace", ".backupStorageLocation", ".maintenanceFrequency"}),
			enums: map[string][]string{
				".status.phase":                      {"New", "Ready", "NotReady"},
				".status.recentMaintenance[].result": {"Succeeded", "Failed"},
				".spec.repositoryType":               engines,
			},
		},
		"DataUpload": {
			version: "v2alpha1",
			plural:  "datauploads", shortNames: []string{"du"},
			columns: []column{status, started, done, total, incremental, location, age, node},
			required: below(".spec", []string{
				".snapshotType", ".sourcePVC", ".backupStorageLocation", ".sourceNamespace", ".operationTimeout",
				".csiSnapshot.volumeSnapshot", ".csiSnapshot.storageClass",
			}),
			enums: map[string][]string{".status.phase": loads, ".status.nodeOS": systems},
		},
		"DataDownload": {
			version: "v2alpha1",
			plural:  "datadownloads", shortNames: []string{"dd"},
			columns: []column{status, started, done, total, location, age, node},
			required: below(".spec", []string{
				".targetVolume", ".targetVolume.pvc", ".targetVolume.pv", ".targetVolume.namespace",
				".backupStorageLocation", ".snapshotID", ".sourceNamespace", ".operationTimeout",
			}),
			enums: map[string][]string{".status.phase": loads, ".spec.nodeOS": systems},
		},
	}
}

func (e expectation) group() string { return "velero.io/" + cmp.Or(e.version, "v1") }

// readDefinitions returns the embedded definitions by kind.
func readDefinitions(tb testing.TB) map[string]definition {
	tb.Helper()
	documents, err := crds.All()
	require.NoError(tb, err)
	definitions := make(map[string]definition, len(documents))
	for _, document := range documents {
		var one definition
		require.NoError(tb, yaml.Unmarshal(document, &one))
		require.Len(tb, one.Spec.Versions, 1, one.Metadata.Name)
		definitions[one.Spec.Names.Kind] = one
	}
	return definitions
}

func TestEveryKindHasDefinition(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, slices.Collect(maps.Keys(expectations())), slices.Collect(maps.Keys(readDefinitions(t))))
}

func TestNamesScopeAndColumnsAreAsInVelero(t *testing.T) {
	t.Parallel()
	definitions := readDefinitions(t)
	for kind, want := range expectations() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			got := definitions[kind]
			require.Equal(t, want.plural+".velero.io", got.Metadata.Name)
			require.Equal(t, want.group(), got.Spec.Group+"/"+got.Spec.Versions[0].Name)
			require.Equal(t, "Namespaced", got.Spec.Scope)
			require.Equal(t, kind+"List", got.Spec.Names.ListKind)
			require.Equal(t, want.plural, got.Spec.Names.Plural)
			require.Equal(t, strings.ToLower(kind), got.Spec.Names.Singular)
			require.Equal(t, want.shortNames, got.Spec.Names.ShortNames)
			require.True(t, got.Spec.Versions[0].Served)
			require.True(t, got.Spec.Versions[0].Storage)
			require.Equal(t, want.columns, got.Spec.Versions[0].Columns)
		})
	}
}

func TestDefinitionsHaveNoStatusSubresource(t *testing.T) {
	t.Parallel()
	for kind, got := range readDefinitions(t) {
		require.Empty(t, got.Spec.Versions[0].Subresources, "clients write the status of %s with plain updates", kind)
	}
}

func TestSchemasRequireAndEnumerateNoMoreThanVelero(t *testing.T) {
	t.Parallel()
	definitions := readDefinitions(t)
	for kind, want := range expectations() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var required []string
			enums := make(map[string][]string)
			walk(definitions[kind].Spec.Versions[0].Schema.Root, "", func(path string, node *schema) {
				for _, field := range node.Required {
					required = append(required, path+"."+field)
				}
				if len(node.Enum) > 0 {
					enums[path] = node.Enum
				}
			})
			require.ElementsMatch(t, want.required, required)
			require.Equal(t, want.enums, enums)
		})
	}
}

func TestEveryFieldHasDescription(t *testing.T) {
	t.Parallel()
	for kind, got := range readDefinitions(t) {
		walk(got.Spec.Versions[0].Schema.Root, "", func(path string, node *schema) {
			for field, property := range node.Properties {
				if path == "" && field == "metadata" {
					continue
				}
				require.NotEmpty(t, property.Description, "%s%s.%s", kind, path, field)
			}
		})
	}
}

// walk calls visit for node and all below it, with the path of each.
func walk(node *schema, path string, visit func(path string, node *schema)) {
	if node == nil {
		return
	}
	visit(path, node)
	for field, property := range node.Properties {
		walk(property, path+"."+field, visit)
	}
	walk(node.Items, path+"[]", visit)
	walk(node.AdditionalProperties, path+"{}", visit)
}
