// Command hello is the smallest useful plugin: one action that adds a label to items of a backup.
package main

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

func main() {
	framework.Serve(biav1.Register("example.io/stamp", newStamp))
}

type stamp struct{}

func newStamp(context.Context, *framework.Setup) (biav1.BackupItemAction, error) { return stamp{}, nil }

func (stamp) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (stamp) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	labels := input.Item.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["example.io/stamp"] = input.Backup.Name
	input.Item.SetLabels(labels)
	return biav1.NewExecuteOutput(input.Item), nil
}
