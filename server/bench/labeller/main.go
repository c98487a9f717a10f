// Command labeller is the plugin of the benchmarks: it sets a label on every item, at both versions of
// BackupItemAction, and once more without decoding the item. It is written in the usual way of authors, except that
// the names of its actions contain the name of its file, so that there can be many copies.
package main

import (
	"context"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/rawitem"
)

func main() {
	name := "bench.cleat.dev/" + filepath.Base(os.Args[0])
	framework.Serve(
		biav1.Register(name+"-v1", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return v1{}, nil
		}),
		biav2.Register(name+"-raw", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return raw{}, nil
		}),
		biav2.Register(name+"-v2", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return v2{}, nil
		}),
	)
}

func label(item *unstructured.Unstructured) *unstructured.Unstructured {
	labels := item.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["bench.cleat.dev/seen"] = "true"
	item.SetLabels(labels)
	return item
}

type v1 struct{}

func (v1) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (v1) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return biav1.NewExecuteOutput(label(input.Item)), nil
}

type v2 struct{ biav2.ExecuteOnly }

func (v2) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (v2) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	return biav2.NewExecuteOutput(label(input.Item)), nil
}

// raw sets the label without decoding the item.
type raw struct{ v2 }

func (raw) ExecuteRaw(_ context.Context, input *biav2.ExecuteRawInput) (*biav2.ExecuteRawOutput, error) {
	labelled, err := rawitem.SetLabel(input.Item, "bench.cleat.dev/seen", "true")
	return &biav2.ExecuteRawOutput{UpdatedItem: labelled}, err
}
