package install

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestCoversFindsWhatADefinitionLacks(t *testing.T) {
	t.Parallel()
	wanted, err := definitions()
	require.NoError(t, err)
	for _, definition := range wanted {
		require.True(t, covers(definition, definition), definition.Name)
	}
	at := slices.IndexFunc(wanted,
		func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == "backups.velero.io" })
	require.GreaterOrEqual(t, at, 0)
	backups := wanted[at]
	status := func(d *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
		return d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties
	}
	for name, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"no field":   func(d *apiextensionsv1.CustomResourceDefinition) { delete(status(d), "queuePosition") },
		"not served": func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false },
		"no schema":  func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Schema = nil },
		"own status": func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			}
		},
		"fewer phases": func(d *apiextensionsv1.CustomResourceDefinition) {
			phase := status(d)["phase"]
			phase.Enum = phase.Enum[:2]
			status(d)["phase"] = phase
		},
	} {
		lacking := backups.DeepCopy()
		change(lacking)
		require.False(t, covers(lacking, backups), name)
	}
	richer := backups.DeepCopy()
	status(richer)["more"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	require.True(t, covers(richer, backups), "what is there beyond is no matter")
}
