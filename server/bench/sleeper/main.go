// Command sleeper is a plugin of the benchmarks: a backup takes as long as a config map in it says.
package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
)

func main() {
	framework.Serve(biav2.Register("bench.cleat.dev/sleeper",
		func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) { return sleeper{}, nil }))
}

type sleeper struct{ biav2.ExecuteOnly }

func (sleeper) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (sleeper) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	text, found, err := unstructured.NestedString(input.Item.Object, "data", "sleep")
	if err != nil || !found {
		return nil, err
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("data.sleep: %w", err)
	}
	select {
	case <-time.After(length):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
