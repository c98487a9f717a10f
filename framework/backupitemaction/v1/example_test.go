package v1_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

// strip removes an annotation from what is stored.
type strip struct{}

func (strip) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}, LabelSelector: "app=shop"}, nil
}

func (strip) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	unstructured.RemoveNestedField(input.Item.Object, "metadata", "annotations", "example.io/cache")
	return biav1.NewExecuteOutput(input.Item), nil
}

func newStrip(context.Context, *framework.Setup) (biav1.BackupItemAction, error) { return strip{}, nil }

func Example() {
	registration := biav1.Register("example.io/strip", newStrip)
	fmt.Println(registration.Kind(), registration.Name())

	item := &unstructured.Unstructured{Object: map[string]any{}}
	item.SetAnnotations(map[string]string{"example.io/cache": "hot", "example.io/team": "shop"})
	output, err := strip{}.Execute(context.TODO(), &biav1.ExecuteInput{Item: item})
	fmt.Println(output.UpdatedItem.GetAnnotations(), err)
	// Output:
	// BackupItemAction example.io/strip
	// map[example.io/team:shop] <nil>
}
