package install_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// TestAcceptInstall_VelerosFields has every field of every custom resource of Velero: the definitions know it, with its
// type and its values.
func TestAcceptInstall_VelerosFields(t *testing.T) {
	t.Parallel()
	text, err := exec.CommandContext(t.Context(), velero.Get(t).Velero, "install", "--crds-only", "--dry-run", "-o",
		"yaml").Output()
	require.NoError(t, err)
	var theirs apiextensionsv1.CustomResourceDefinitionList
	require.NoError(t, yaml.Unmarshal(text, &theirs))
	require.Len(t, theirs.Items, 13)
	definitions, err := crds.All()
	require.NoError(t, err)
	ours := map[string]field{}
	for _, text := range definitions {
		var d apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.Unmarshal(text, &d))
		addDefinition(ours, &d)
	}
	want := map[string]field{}
	for i := range theirs.Items {
		addDefinition(want, &theirs.Items[i])
	}
	require.Greater(t, len(want), 400)
	for path, f := range want {
		require.Contains(t, ours, path)
		require.Equal(t, f.kind, ours[path].kind, path)
		require.Subset(t, ours[path].values, f.values, path)
	}
}

// field is what a definition says of a field: its type, and its values as JSON if only some are allowed.
type field struct {
	kind   string
	values []string
}

// addDefinition adds the fields of a definition by their paths, such as Backup/v1.spec.hooks.resources[].name.
func addDefinition(to map[string]field, d *apiextensionsv1.CustomResourceDefinition) {
	for _, version := range d.Spec.Versions {
		addFields(to, d.Spec.Names.Kind+"/"+version.Name, version.Schema.OpenAPIV3Schema)
	}
}

func addFields(to map[string]field, path string, schema *apiextensionsv1.JSONSchemaProps) {
	f := field{kind: schema.Type}
	if schema.XIntOrString {
		f.kind = "int-or-string"
	}
	for _, value := range schema.Enum {
		f.values = append(f.values, string(value.Raw))
	}
	slices.Sort(f.values)
	to[path] = f
	for name, property := range schema.Properties {
		addFields(to, path+"."+name, &property)
	}
	if schema.Items != nil {
		addFields(to, path+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		addFields(to, path+"{}", schema.AdditionalProperties.Schema)
	}
}
