// Command blocks is a plugin that relates items to each other, and records in $BLOCKS_DIR/BACKUP when the work on each
// of them begins and ends. Its behavior for an item is in annotations, "blocks/relates", "blocks/fails" and
// "blocks/meets".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	blockv1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
)

func main() {
	framework.Serve(
		blockv1.Register("example.io/blocks", func(context.Context, *framework.Setup) (blockv1.ItemBlockAction, error) {
			return relations{}, nil
		}),
		biav2.Register("example.io/blocks", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return notes{}, nil
		}),
	)
}

func selector() framework.ResourceSelector {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps", "pods"}}
}

type relations struct{}

func (relations) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector(), nil
}

// GetRelatedItems relates the items that "blocks/relates" names, as "RESOURCE/NAMESPACE/NAME ...".
func (relations) GetRelatedItems(
	_ context.Context, input *blockv1.GetRelatedItemsInput,
) (*blockv1.GetRelatedItemsOutput, error) {
	annotations := input.Item.GetAnnotations()
	if text := annotations["blocks/fails"]; text != "" {
		return nil, errors.New(text)
	}
	output := &blockv1.GetRelatedItemsOutput{}
	for _, related := range strings.Fields(annotations["blocks/relates"]) {
		parts := strings.Split(related, "/")
		output.RelatedItems = append(output.RelatedItems, framework.ResourceIdentifier{Resource: parts[0],
			Namespace: parts[1], Name: parts[2]})
	}
	return output, nil
}

type notes struct{ biav2.ExecuteOnly }

func (notes) AppliesTo(context.Context) (framework.ResourceSelector, error) { return selector(), nil }

// Execute records an item. It lasts until all items whose "blocks/meets" is the same list of names are in progress.
func (notes) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	file := filepath.Join(os.Getenv("BLOCKS_DIR"), input.Backup.Name)
	if err := note(file, "begun", input.Item.GetName()); err != nil {
		return nil, err
	}
	for _, other := range strings.Fields(input.Item.GetAnnotations()["blocks/meets"]) {
		if err := await(ctx, file, "begun "+other); err != nil {
			return nil, err
		}
	}
	return biav2.NewExecuteOutput(input.Item), note(file, "ended", input.Item.GetName())
}

// note appends a line. One write with O_APPEND is never mixed with other writes.
func note(name, what, item string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s %s\n", what, item)
	return err
}

// await waits for a line.
func await(ctx context.Context, name, line string) error {
	for {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains("\n"+string(text), "\n"+line+"\n") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q: %w", line, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
