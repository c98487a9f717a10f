package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
)

// Install creates or updates the definition of DataTransfers, and waits until the cluster serves it.
func Install(ctx context.Context) error {
	cluster, err := v1.Cluster()
	if err != nil {
		return err
	}
	to, err := client.New(cluster, client.Options{})
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(v1.Definition, &definition.Object); err != nil {
		return err
	}
	err = to.Apply(ctx, client.ApplyConfigurationFromUnstructured(&definition), client.FieldOwner("data-mover"),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply the definition of DataTransfers: %w", err)
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			if err := to.Get(ctx, client.ObjectKeyFromObject(&definition), &definition); err != nil {
				return false, err
			}
			conditions, _, err := unstructured.NestedFieldNoCopy(definition.Object, "status", "conditions")
			list, _ := conditions.([]any) // null at the beginning
			for _, one := range list {
				if condition, ok := one.(map[string]any); ok && condition["type"] == "Established" &&
					condition["status"] == "True" {
					return true, nil
				}
			}
			return false, err
		})
}
