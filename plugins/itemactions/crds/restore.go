// Package crds holds the built-in actions on CustomResourceDefinitions, which may be in a shape of before
// apiextensions.k8s.io/v1. It imports framework only; a function gives it access to the cluster.
package crds

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// preserve makes a schema keep the fields that it does not list.
const preserve = "x-kubernetes-preserve-unknown-fields"

// NewRestore returns velero.io/crd-preserve-fields. A definition that was created as v1beta1 can be served as v1 with
// preserveUnknownFields set, which API servers reject in a v1 definition at creation. The action moves the setting to
// the schema of each version.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"customresourcedefinitions.apiextensions.k8s.io"}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	if input.Item.GetAPIVersion() != "apiextensions.k8s.io/v1" {
		return nil, nil
	}
	crd := input.Item.Object
	all, err := field.True(crd, "spec", "preserveUnknownFields")
	if err != nil || !all {
		return nil, err
	}
	versions, err := field.Objects(crd, "spec", "versions")
	if err != nil {
		return nil, err
	}
	for i, version := range versions {
		schema, err := field.Object(version, "schema", "openAPIV3Schema")
		if err != nil {
			return nil, field.In("spec.versions", i, err)
		}
		if schema != nil {
			schema[preserve] = true
		}
	}
	if _, err := field.Remove(crd, "spec", "preserveUnknownFields"); err != nil {
		return nil, err
	}
	framework.Log(ctx).Debug("unknown fields are kept by the schemas now", "name", input.Item.GetName())
	return riav1.NewExecuteOutput(input.Item), nil
}
