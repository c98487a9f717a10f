// Command labelall is a plugin of the benchmarks: it sets a label on every item, in the usual way of authors.
package main

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
)

func main() {
	framework.Serve(biav2.Register("bench.cleat.dev/label-all",
		func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) { return action{}, nil }))
}

type action struct{ biav2.ExecuteOnly }

func (action) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (action) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	labels := input.Item.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["bench.cleat.dev/seen"] = "true"
	input.Item.SetLabels(labels)
	return biav2.NewExecuteOutput(input.Item), nil
}
