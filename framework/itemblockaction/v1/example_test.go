package v1_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
)

// members backs the members of a cluster up together.
type members struct{}

func (members) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}, LabelSelector: "example.io/peer"}, nil
}

func (members) GetRelatedItems(
	_ context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	peer := framework.ResourceIdentifier{Resource: "pods", Namespace: input.Item.GetNamespace(),
		Name: input.Item.GetLabels()["example.io/peer"]}
	return &ibav1.GetRelatedItemsOutput{RelatedItems: []framework.ResourceIdentifier{peer}}, nil
}

func newMembers(context.Context, *framework.Setup) (ibav1.ItemBlockAction, error) {
	return members{}, nil
}

func Example() {
	registration := ibav1.Register("example.io/members", newMembers)
	fmt.Println(registration.Kind(), registration.Name())

	item := &unstructured.Unstructured{Object: map[string]any{}}
	item.SetNamespace("shop")
	item.SetLabels(map[string]string{"example.io/peer": "db-1"})
	output, err := members{}.GetRelatedItems(context.TODO(), &ibav1.GetRelatedItemsInput{Item: item})
	fmt.Println(output.RelatedItems, err)
	// Output:
	// ItemBlockAction example.io/members
	// [pods/shop/db-1] <nil>
}
