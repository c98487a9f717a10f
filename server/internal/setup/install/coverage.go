package install

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CompleteDefinitions is Definitions for a cluster with another server's definitions: it does not change definitions
// that have everything that this server needs. With dryRun, it writes nothing and calls applied with the changes that
// it would make.
func CompleteDefinitions(ctx context.Context, c client.Client, dryRun bool, applied func(name, action string)) error {
	if err := apiextensionsv1.AddToScheme(c.Scheme()); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	wanted, err := definitions()
	if err != nil {
		return err
	}
	var incomplete []*apiextensionsv1.CustomResourceDefinition
	for _, definition := range wanted {
		var existing apiextensionsv1.CustomResourceDefinition
		err := c.Get(ctx, client.ObjectKeyFromObject(definition), &existing)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("read custom resource definition %s: %w", definition.Name, err)
		case err == nil && covers(&existing, definition):
			continue
		case dryRun && err != nil:
			applied(definition.Name, "created")
		case dryRun:
			applied(definition.Name, "configured")
		}
		incomplete = append(incomplete, definition)
	}
	if dryRun {
		return nil
	}
	return applyAll(ctx, c, incomplete, applied)
}

// covers reports whether a definition serves the versions of another one, with all fields and all values of
// enumerations.
func covers(existing, wanted *apiextensionsv1.CustomResourceDefinition) bool {
	for i := range wanted.Spec.Versions {
		version := &wanted.Spec.Versions[i]
		at := slices.IndexFunc(existing.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version.Name && v.Served && hasStatus(&v) == hasStatus(version)
		})
		if at < 0 || existing.Spec.Versions[at].Schema == nil ||
			!schemaCovers(existing.Spec.Versions[at].Schema.OpenAPIV3Schema, version.Schema.OpenAPIV3Schema) {
			return false
		}
	}
	return true
}

// hasStatus reports whether the status of objects is a resource of its own, so that writes of the object leave it out.
func hasStatus(v *apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Status != nil
}

func schemaCovers(existing, wanted *apiextensionsv1.JSONSchemaProps) bool {
	if wanted == nil {
		return true
	}
	if existing == nil {
		return false
	}
	if existing.XPreserveUnknownFields != nil && *existing.XPreserveUnknownFields {
		return true
	}
	for _, value := range wanted.Enum {
		if len(existing.Enum) > 0 &&
			!slices.ContainsFunc(existing.Enum,
				func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }) {
			return false
		}
	}
	for name := range wanted.Properties {
		mine, theirs := wanted.Properties[name], existing.Properties[name]
		if _, found := existing.Properties[name]; !found || !schemaCovers(&theirs, &mine) {
			return false
		}
	}
	if wanted.Items != nil && (existing.Items == nil || !schemaCovers(existing.Items.Schema, wanted.Items.Schema)) {
		return false
	}
	return wanted.AdditionalProperties == nil ||
		existing.AdditionalProperties != nil && schemaCovers(existing.AdditionalProperties.Schema,
			wanted.AdditionalProperties.Schema)
}
