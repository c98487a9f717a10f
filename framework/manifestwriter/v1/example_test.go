package v1_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/cleat-dev/cleat/framework"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

// inventory writes the name of each item into a file beside the backup.
type inventory struct{}

func (inventory) Write(_ context.Context, input *mwv1.WriteInput) error {
	file, err := input.Artifacts.Create("inventory.txt")
	if err != nil {
		return err
	}
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(file, "%s %s/%s\n", item.Kind, item.Namespace, item.Name); err != nil {
			return err
		}
	}
	return nil
}

func newInventory(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) {
	return inventory{}, nil
}

// standardOutput prints artifacts.
type standardOutput struct{}

func (standardOutput) Create(string) (io.Writer, error) { return os.Stdout, nil }

func Example() {
	registration := mwv1.Register("example.io/inventory", newInventory)
	fmt.Println(registration.Kind(), registration.Name())

	items := func(yield func(*mwv1.Item, error) bool) {
		yield(&mwv1.Item{Kind: "Secret", Namespace: "shop", Name: "tls"}, nil)
	}
	if err := (inventory{}).Write(context.TODO(),
		&mwv1.WriteInput{Items: items, Artifacts: standardOutput{}}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ManifestWriter example.io/inventory
	// Secret shop/tls
}
