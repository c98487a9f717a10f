package v2_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

// afterKey restores a database after its key, and waits until the key is unlocked.
type afterKey struct {
	riav2.ExecuteOnly
	unlocked func(context.Context, framework.ResourceIdentifier) (bool, error)
}

func (a afterKey) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"databases.example.io"}}, nil
}

func (a afterKey) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	key := framework.ResourceIdentifier{Group: "example.io", Resource: "keys",
		Namespace: input.ItemFromBackup.GetNamespace(), Name: "main"}
	return riav2.NewExecuteOutput(input.Item).WithItems(key).WithItemsWaitFor(time.Hour), nil
}

func (a afterKey) AreAdditionalItemsReady(
	ctx context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	for _, key := range input.AdditionalItems {
		if unlocked, err := a.unlocked(ctx, key); err != nil || !unlocked {
			return nil, err // nil: not ready yet
		}
	}
	return &riav2.AreAdditionalItemsReadyOutput{Ready: true}, nil
}

func Example() {
	action := afterKey{unlocked: func(context.Context, framework.ResourceIdentifier) (bool, error) { return true, nil }}
	item := &unstructured.Unstructured{Object: map[string]any{}}
	item.SetNamespace("shop")
	output, err := action.Execute(context.TODO(), &riav2.ExecuteInput{Item: item, ItemFromBackup: item})
	fmt.Println(output.AdditionalItems, output.WaitForAdditionalItems, err)
	ready, err := action.AreAdditionalItemsReady(context.TODO(),
		&riav2.AreAdditionalItemsReadyInput{AdditionalItems: output.AdditionalItems})
	fmt.Println(ready.Ready, err)
	// Output:
	// [keys.example.io/shop/main] true <nil>
	// true <nil>
}
