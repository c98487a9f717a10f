// Command longwork is a plugin of the benchmarks: its operations are always half done. It is written in the usual way
// of authors.
package main

import (
	"context"
	"time"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
)

func main() {
	framework.Serve(abiav1.Register("bench.cleat.dev/longwork",
		func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error) { return longwork{}, nil }))
}

type longwork struct{}

func (longwork) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (longwork) Start(_ context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	return abiav1.NewStartOutput(nil).WithOperation(input.Key), nil
}

func (longwork) Progress(context.Context, *abiav1.ProgressInput) (framework.OperationProgress, error) {
	now := time.Now()
	return framework.OperationProgress{
		NCompleted: now.UnixMilli(), NTotal: 2 * now.UnixMilli(), Units: "bytes", Description: "copying",
		Started: now.Add(-time.Hour), Updated: now,
	}, nil
}

func (longwork) Cancel(context.Context, *abiav1.CancelInput) error { return nil }
