package v1_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// leaveCaches restores no ConfigMap that is a cache.
type leaveCaches struct{}

func (leaveCaches) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (leaveCaches) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	output := riav1.NewExecuteOutput(input.Item)
	if input.ItemFromBackup.GetLabels()["example.io/cache"] == "true" {
		output.WithoutRestore()
	}
	return output, nil
}

func newLeaveCaches(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return leaveCaches{}, nil
}

func Example() {
	registration := riav1.Register("example.io/leave-caches", newLeaveCaches)
	fmt.Println(registration.Kind(), registration.Name())

	item := &unstructured.Unstructured{Object: map[string]any{}}
	item.SetLabels(map[string]string{"example.io/cache": "true"})
	output, err := leaveCaches{}.Execute(context.TODO(), &riav1.ExecuteInput{Item: item, ItemFromBackup: item})
	fmt.Println(output.SkipRestore, err)
	// Output:
	// RestoreItemAction example.io/leave-caches
	// true <nil>
}
