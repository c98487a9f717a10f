package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
)

const (
	establishTimeout = 2 * time.Minute // for the API server to serve a definition
	establishPoll    = 50 * time.Millisecond
)

// Definitions creates or updates the custom resource definitions, then waits until the API server serves all of them.
// It calls applied after each with its name and "created" or "configured". It adds the types of definitions to the
// scheme of c.
func Definitions(ctx context.Context, c client.Client, applied func(name, action string)) error {
	if err := apiextensionsv1.AddToScheme(c.Scheme()); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	definitions, err := definitions()
	if err != nil {
		return err
	}
	return applyAll(ctx, c, definitions, applied)
}

// applyAll creates or updates definitions, then waits until the API server serves them.
func applyAll(
	ctx context.Context, c client.Client, definitions []*apiextensionsv1.CustomResourceDefinition, applied func(name,
		action string),
) error {
	for _, definition := range definitions {
		action, err := apply(ctx, c, definition)
		if err != nil {
			return fmt.Errorf("install custom resource definition %s: %w", definition.Name, err)
		}
		applied(definition.Name, action)
	}
	for _, definition := range definitions {
		if err := awaitServed(ctx, c, definition); err != nil {
			return err
		}
	}
	return nil
}

// DefinitionObjects returns the custom resource definitions.
func DefinitionObjects() ([]*unstructured.Unstructured, error) {
	definitions, err := definitions()
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(definitions))
	for _, definition := range definitions {
		object, err := unstructuredOf(definition)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// definitions returns the embedded definitions with the labels of an installation.
func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	documents, err := crds.All()
	if err != nil {
		return nil, err
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(documents))
	for _, document := range documents {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(document, &definition); err != nil {
			return nil, fmt.Errorf("decode an embedded definition: %w", err)
		}
		definition.Labels = labels(definition.Labels)
		definitions = append(definitions, &definition)
	}
	return definitions, nil
}

// apply creates a definition, or replaces the spec and the labels of the existing one.
func apply(
	ctx context.Context, c client.Client, definition *apiextensionsv1.CustomResourceDefinition,
) (action string, err error) {
	err = c.Create(ctx, definition.DeepCopy())
	if err == nil {
		return "created", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	for {
		var existing apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKeyFromObject(definition), &existing); err != nil {
			return "", err
		}
		existing.Spec = definition.Spec
		existing.Labels = definition.Labels
		err := c.Update(ctx, &existing)
		if err == nil {
			return "configured", nil
		}
		if !apierrors.IsConflict(err) {
			return "", err
		}
	}
}

// awaitServed waits until a definition is established and clients discover its versions, which happens a little later.
// It requests the versions by name: clients would not look up new versions of a group that they have discovered.
func awaitServed(ctx context.Context, c client.Client, definition *apiextensionsv1.CustomResourceDefinition) error {
	kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
	err := wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true,
		func(ctx context.Context) (bool, error) {
			var existing apiextensionsv1.CustomResourceDefinition
			if err := c.Get(ctx, client.ObjectKeyFromObject(definition), &existing); err != nil {
				return false, err
			}
			established := slices.ContainsFunc(existing.Status.Conditions,
				func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
					return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
				})
			if !established {
				return false, nil
			}
			for _, version := range definition.Spec.Versions {
				if _, err := c.RESTMapper().RESTMapping(kind, version.Name); meta.IsNoMatchError(err) {
					return false, nil
				} else if err != nil {
					return false, err
				}
			}
			return true, nil
		})
	if err != nil {
		return fmt.Errorf("wait until custom resource definition %s is served: %w", definition.Name, err)
	}
	return nil
}
