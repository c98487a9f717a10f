// Command witness is a plugin that records which process handles which item of which backup, restore or deletion, in
// the file that $WITNESS_FILE names. It then waits for $WITNESS_PAUSE, and as long as the file $WITNESS_HOLD exists.
// The run of a deletion is "deletion/BACKUP".
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

func main() {
	framework.Serve(
		biav2.Register("example.io/witness", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return backups{}, nil
		}),
		riav1.Register("example.io/witness", func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return restores{}, nil
		}),
		diav1.Register("example.io/witness", func(context.Context, *framework.Setup) (diav1.DeleteItemAction, error) {
			return deletions{}, nil
		}),
	)
}

// note appends a line and waits. One write with O_APPEND is never mixed with the writes of other processes.
func note(ctx context.Context, run, item string) error {
	file, err := os.OpenFile(os.Getenv("WITNESS_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%d %s %s\n", os.Getpid(), run, item); err != nil {
		return err
	}
	pause, err := time.ParseDuration(os.Getenv("WITNESS_PAUSE"))
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if _, err := os.Stat(os.Getenv("WITNESS_HOLD")); err != nil {
			return nil
		}
		pause = 10 * time.Millisecond
	}
}

func selector() framework.ResourceSelector {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}
}

type backups struct{ biav2.ExecuteOnly }

func (backups) AppliesTo(context.Context) (framework.ResourceSelector, error) { return selector(), nil }

func (backups) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	return biav2.NewExecuteOutput(input.Item), note(ctx, input.Backup.Name, input.Item.GetName())
}

type restores struct{}

func (restores) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector(), nil
}

func (restores) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	return riav1.NewExecuteOutput(input.Item), note(ctx, input.Restore.Name, input.Item.GetName())
}

type deletions struct{}

func (deletions) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector(), nil
}

func (deletions) Execute(ctx context.Context, input *diav1.ExecuteInput) error {
	return note(ctx, "deletion/"+input.Backup.Name, input.Item.GetName())
}
