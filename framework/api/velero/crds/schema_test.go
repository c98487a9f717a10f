package crds_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
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

// expectation is what Velero's definition of a kind of velero.io/v1 contains.
type expectation struct {
	goType     reflect.Type
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

// below returns paths with a prefix.
func below(prefix string, paths []string) []string {
	var moved []string
	for _, path := range paths {
		moved = append(moved, prefix+path)
	}
	return moved
}

// expectations returns what is expected of each kind of velero.io/v1.
func expectations() map[string]expectation {
	var (
		age       = column{"Age", "date", ".metadata.creationTimestamp"}
		hookModes = []string{"Continue", "Fail"}
		usability = []string{"Available", "Unavailable"}
		access    = []string{"ReadOnly", "ReadWrite"}
	)
	return map[string]expectation{
		"Backup": {
			goType: reflect.TypeFor[v1.Backup](),
			plural: "backups",
			// Velero has none, so kubectl only shows the age.
			columns: []column{
				{"Status", "string", ".status.phase"},
				{"Queue", "integer", ".status.queuePosition"},
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
			},
		},
		"Restore": {
			goType: reflect.TypeFor[v1.Restore](),
			plural: "restores",
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
			goType: reflect.TypeFor[v1.Schedule](),
			plural: "schedules",
			columns: []column{
				{"Status", "string", ".status.phase"},
				{"Schedule", "string", ".spec.schedule"},
				{"LastBackup", "date", ".status.lastBackup"},
				age,
				{"Paused", "boolean", ".spec.paused"},
			},
			required: append([]string{".spec.schedule", ".spec.template"},
				below(".spec.template", backupTemplateRequired)...),
			enums: map[string][]string{
				".status.phase": {"New", "Enabled", "FailedValidation"},
				".spec.template.hooks.resources[].pre[].exec.onError":  hookModes,
				".spec.template.hooks.resources[].post[].exec.onError": hookModes,
			},
		},
		"BackupStorageLocation": {
			goType:     reflect.TypeFor[v1.BackupStorageLocation](),
			plural:     "backupstoragelocations",
			shortNames: []string{"bsl"},
			columns: []column{
				{"Phase", "string", ".status.phase"},
				{"Last Validated", "date", ".status.lastValidationTime"},
				age,
				{"Default", "boolean", ".spec.default"},
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
			goType:     reflect.TypeFor[v1.VolumeSnapshotLocation](),
			plural:     "volumesnapshotlocations",
			shortNames: []string{"vsl"},
			required:   []string{".spec.provider", ".spec.credential.key"},
			enums:      map[string][]string{".status.phase": usability},
		},
		"DeleteBackupRequest": {
			goType: reflect.TypeFor[v1.DeleteBackupRequest](),
			plural: "deletebackuprequests",
			columns: []column{
				{"BackupName", "string", ".spec.backupName"},
				{"Status", "string", ".status.phase"},
			},
			required: []string{".spec.backupName"},
			enums:    map[string][]string{".status.phase": {"New", "InProgress", "Processed"}},
		},
		"DownloadRequest": {
			goType:   reflect.TypeFor[v1.DownloadRequest](),
			plural:   "downloadrequests",
			required: []string{".spec.target", ".spec.target.kind", ".spec.target.name"},
			enums: map[string][]string{
				".status.phase": {"New", "Processed"},
				".spec.target.kind": {
					"BackupLog", "BackupContents", "BackupVolumeSnapshots", "BackupItemOperations",
					"BackupResourceList", "BackupResults", "RestoreLog", "RestoreResults", "RestoreResourceList",
					"RestoreItemOperations", "CSIBackupVolumeSnapshots", "CSIBackupVolumeSnapshotContents",
					"BackupVolumeInfos", "RestoreVolumeInfo",
				},
			},
		},
		"ServerStatusRequest": {
			goType:     reflect.TypeFor[v1.ServerStatusRequest](),
			plural:     "serverstatusrequests",
			shortNames: []string{"ssr"},
			required:   []string{".status.plugins[].name", ".status.plugins[].kind"},
			enums:      map[string][]string{".status.phase": {"New", "Processed"}},
		},
	}
}

// readDefinitions returns the embedded definitions of version v1 by kind.
func readDefinitions(tb testing.TB) map[string]definition {
	tb.Helper()
	documents, err := crds.All()
	require.NoError(tb, err)
	definitions := make(map[string]definition, len(documents))
	for _, document := range documents {
		var one definition
		require.NoError(tb, yaml.Unmarshal(document, &one))
		require.Len(tb, one.Spec.Versions, 1, one.Metadata.Name)
		if one.Spec.Versions[0].Name == v1.SchemeGroupVersion.Version {
			definitions[one.Spec.Names.Kind] = one
		}
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
			require.Equal(t, "velero.io", got.Spec.Group)
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

func TestSchemasHaveFieldsOfTypes(t *testing.T) {
	t.Parallel()
	definitions := readDefinitions(t)
	for kind, want := range expectations() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			requireSameShape(t, want.goType, definitions[kind].Spec.Versions[0].Schema.Root, "")
		})
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

// requireSameShape checks that a schema describes the JSON of a Go type.
func requireSameShape(t *testing.T, goType reflect.Type, node *schema, path string) {
	t.Helper()
	require.NotNil(t, node, "no schema of %s", path)
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	want := schema{Description: node.Description, Required: node.Required, Enum: node.Enum}
	switch goType {
	case reflect.TypeFor[metav1.Time]():
		want.Type, want.Format = "string", "date-time"
		require.Equal(t, want, *node, path)
		return
	case reflect.TypeFor[metav1.Duration]():
		want.Type = "string"
		require.Equal(t, want, *node, path)
		return
	case reflect.TypeFor[[]byte]():
		want.Type, want.Format = "string", "byte"
		require.Equal(t, want, *node, path)
		return
	case reflect.TypeFor[metav1.ObjectMeta]():
		want.Type = "object"
		require.Equal(t, want, *node, path)
		return
	case reflect.TypeFor[runtime.RawExtension]():
		want.Type, want.PreserveUnknown = "object", true
		require.Equal(t, want, *node, path)
		return
	}
	switch goType.Kind() {
	case reflect.String:
		require.Equal(t, "string", node.Type, path)
	case reflect.Bool:
		require.Equal(t, "boolean", node.Type, path)
	case reflect.Int:
		require.Equal(t, "integer", node.Type, path)
	case reflect.Slice:
		require.Equal(t, "array", node.Type, path)
		requireSameShape(t, goType.Elem(), node.Items, path+"[]")
	case reflect.Map:
		require.Equal(t, "object", node.Type, path)
		requireSameShape(t, goType.Elem(), node.AdditionalProperties, path+"{}")
	case reflect.Struct:
		require.Equal(t, "object", node.Type, path)
		fields := jsonFields(goType)
		require.ElementsMatch(t, slices.Collect(maps.Keys(fields)), slices.Collect(maps.Keys(node.Properties)), path)
		for name, fieldType := range fields {
			requireSameShape(t, fieldType, node.Properties[name], path+"."+name)
		}
	default:
		require.Fail(t, "a kind of type without a schema", "%s %s", path, goType)
	}
}

// jsonFields returns the fields of a struct by their JSON names, with inlined structs resolved.
func jsonFields(goType reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	for field := range goType.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			maps.Copy(fields, jsonFields(field.Type))
			continue
		}
		fields[name] = field.Type
	}
	return fields
}
