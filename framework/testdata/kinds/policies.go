package main

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// firstCome admits backups in the order of the queue, up to the limit.
type firstCome struct{ config admission }

// admission is the config of firstCome.
type admission struct {
	Closed bool `json:"closed,omitempty"`
}

func newFirstCome(_ context.Context, setup *framework.Setup) (qav1.QueueAdmission, error) {
	return firstCome{framework.Config[admission](setup)}, nil
}

func (p firstCome) Decide(_ context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	decision := &qav1.DecideOutput{}
	for _, backup := range input.Queued {
		if !p.config.Closed && len(decision.Admit) < input.Free() {
			decision.Admit = append(decision.Admit, backup.Name)
			continue
		}
		decision.Waits = append(decision.Waits, qav1.Wait{
			Name: backup.Name, Reason: "Limit", Message: fmt.Sprintf("%d backups run or are about to", input.Limit),
		})
	}
	return decision, nil
}

// limit is the node agent's own rule.
type limit struct{}

func (limit) Admit(_ context.Context, request *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
	if preparing := request.Preparing(); request.Limit > 0 && preparing >= request.Limit {
		return &lsv1.AdmitOutput{Reason: fmt.Sprintf("%d loads are being prepared", preparing)}, nil
	}
	return &lsv1.AdmitOutput{Admitted: true}, nil
}

// inventory writes one line for each item.
type inventory struct{}

func (inventory) Write(_ context.Context, input *mwv1.WriteInput) error {
	lines, err := input.Artifacts.Create("inventory.txt")
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
