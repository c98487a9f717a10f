package v2_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/rawitem"
)

// withSecret backs a Secret up with each ConfigMap that names one.
type withSecret struct{ biav2.ExecuteOnly }

func (withSecret) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (withSecret) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	output := biav2.NewExecuteOutput(nil) // the item stays as it is
	if name := input.Item.GetAnnotations()["example.io/with-secret"]; name != "" {
		output.WithItems(framework.ResourceIdentifier{Resource: "secrets", Namespace: input.Item.GetNamespace(), Name: name})
	}
	return output, nil
}

func Example() {
	item := &unstructured.Unstructured{Object: map[string]any{}}
	item.SetNamespace("shop")
	item.SetAnnotations(map[string]string{"example.io/with-secret": "tls"})
	output, err := withSecret{}.Execute(context.TODO(), &biav2.ExecuteInput{Item: item})
	fmt.Println(output.AdditionalItems, err)
	// Output: [secrets/shop/tls] <nil>
}

// label labels every item. It takes items as JSON, because it sees all of them and changes little.
type label struct{ withSecret }

func (label) ExecuteRaw(_ context.Context, input *biav2.ExecuteRawInput) (*biav2.ExecuteRawOutput, error) {
	labelled, err := rawitem.SetLabel(input.Item, "example.io/seen", "true")
	return &biav2.ExecuteRawOutput{UpdatedItem: labelled}, err
}

func ExampleRawExecutor() {
	item := []byte(`{"kind":"Secret","metadata":{"name":"tls"}}`)
	output, err := label{}.ExecuteRaw(context.TODO(), &biav2.ExecuteRawInput{Item: item})
	fmt.Println(string(output.UpdatedItem), err)
	// Output: {"kind":"Secret","metadata":{"labels":{"example.io/seen":"true"},"name":"tls"}} <nil>
}

// An action that takes snapshots of claims declares so, and works in the place of the built-in one.
func ExampleRegister_roles() {
	newAction := func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) { return nil, nil }
	registration := biav2.Register("example.io/snapshots", newAction,
		framework.WithRoles(framework.RoleCSI, framework.RoleClaimSnapshots))
	fmt.Println(registration.Kind(), registration.Name())
	// Output: BackupItemActionV2 example.io/snapshots
}
