package main

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// firstCome admits whoever is first, as long as there is room.
type firstCome struct{}

func (firstCome) Decide(_ context.Context, snapshot *qav1.Snapshot) (*qav1.Decision, error) {
	config, err := framework.DecodeConfig[struct{ Closed bool }](snapshot.Config)
	if err != nil {
		return nil, err
	}
	decision := &qav1.Decision{}
	for _, backup := range snapshot.Queued {
		if !config.Closed && len(decision.Admit) < snapshot.Free() {
			decision.Admit = append(decision.Admit, backup.Name)
			continue
		}
		decision.Waits = append(decision.Waits, qav1.Wait{
			Name: backup.Name, Reason: "Limit", Message: fmt.Sprintf("%d backups run or are about to", snapshot.Limit),
		})
	}
	return decision, nil
}

// limit is the node agent's own rule.
type limit struct{}

func (limit) Admit(_ context.Context, request *lsv1.Request) (*lsv1.Decision, error) {
	if preparing := request.Preparing(); request.Limit > 0 && preparing >= request.Limit {
		return &lsv1.Decision{Reason: fmt.Sprintf("%d loads are being prepared", preparing)}, nil
	}
	return &lsv1.Decision{Admitted: true}, nil
}

// inventory writes one line for each item.
type inventory struct{}

func (inventory) Write(_ context.Context, input *mwv1.Input, output mwv1.Output) error {
	lines, err := output.Create("inventory.txt")
	if err != nil {
		return err
	}
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(lines, "%s %s/%s\n", item.Resource, item.Namespace, item.Name); err != nil {
			return err
		}
	}
	return nil
}
