// Command labeller is a plugin whose restore item action gives metadata to the ConfigMaps whose names end with
// by-action: the JSON in the variable LABELLER_METADATA.
package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

func main() {
	framework.Serve(riav1.Register("example.io/labeller",
		func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) { return labeller{}, nil }))
}

type labeller struct{}

func (labeller) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (labeller) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	if !strings.HasSuffix(input.Item.GetName(), "by-action") {
		return nil, nil
	}
	var more map[string]any
	if err := json.Unmarshal([]byte(os.Getenv("LABELLER_METADATA")), &more); err != nil {
		return nil, framework.Errorf("LABELLER_METADATA: %w", err)
	}
	metadata, ok := input.Item.Object["metadata"].(map[string]any)
	if !ok {
		return nil, framework.Errorf("the item has no metadata")
	}
	maps.Copy(metadata, more)
	return riav1.NewExecuteOutput(input.Item), nil
}
