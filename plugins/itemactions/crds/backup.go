package crds

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// GetLegacy returns a definition as apiextensions.k8s.io/v1beta1 serves it; nil if the cluster does not serve that
// version.
type GetLegacy func(ctx context.Context, name string) (*unstructured.Unstructured, error)

// NewBackup returns velero.io/crd-remap-version. A definition that was created as v1beta1 can be served as v1 in a
// shape that API servers reject at its creation. It is backed up as v1beta1 where the cluster serves that, which is
// before Kubernetes 1.22. If the backup holds all versions of each object (EnableAPIGroupVersions), the action changes
// nothing.
func NewBackup(setup *framework.Setup, legacy GetLegacy) (biav1.BackupItemAction, error) {
	return &backup{legacy: legacy, off: setup != nil && setup.FeatureEnabled("EnableAPIGroupVersions")}, nil
}

type backup struct {
	legacy GetLegacy
	off    bool
}

func (*backup) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"customresourcedefinitions.apiextensions.k8s.io"}}, nil
}

func (a *backup) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	if a.off || input.Item.GetAPIVersion() != "apiextensions.k8s.io/v1" {
		return nil, nil
	}
	is, err := isLegacy(input.Item.Object)
	if err != nil || !is {
		return nil, err
	}
	definition, err := a.legacy(ctx, input.Item.GetName())
	if err != nil {
		return nil, framework.WithStack(fmt.Errorf("read the definition as v1beta1: %w", err))
	}
	if definition == nil {
		return nil, nil
	}
	definition.SetAPIVersion("apiextensions.k8s.io/v1beta1")
	definition.SetKind(input.Item.GetKind())
	framework.Log(ctx).Debug("a definition is backed up as v1beta1", "name", input.Item.GetName())
	return biav1.NewExecuteOutput(definition), nil
}

// isLegacy reports whether a definition looks as if it was created as v1beta1: it keeps unknown fields, its first
// version has no schema, or its schemas are not structural.
func isLegacy(crd map[string]any) (bool, error) {
	all, err := field.True(crd, "spec", "preserveUnknownFields")
	if err != nil || all {
		return all, err
	}
	versions, err := field.Objects(crd, "spec", "versions")
	if err != nil {
		return false, err
	}
	if len(versions) > 0 {
		schema, err := field.Object(versions[0], "schema", "openAPIV3Schema")
		if err != nil || schema == nil {
			return err == nil, field.In("spec.versions", 0, err)
		}
	}
	conditions, err := field.Objects(crd, "status", "conditions")
	if err != nil {
		return false, err
	}
	for i, condition := range conditions {
		kind, err := field.Text(condition, "type")
		if err != nil {
			return false, field.In("status.conditions", i, err)
		}
		if kind == "NonStructuralSchema" {
			return true, nil
		}
	}
	return false, nil
}
