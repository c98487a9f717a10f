package queueadmission

import (
	"context"

	"google.golang.org/grpc"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Policy] {
	return versioning.NewVersion(qav1.Kind(), newV1, versioning.Calls{
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName: {Class: versioning.Decision, Repeatable: true},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Policy {
	return v1{Plugin: p, client: queueadmissionv1.NewQueueAdmissionServiceClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client queueadmissionv1.QueueAdmissionServiceClient
}

func (p v1) Decide(ctx context.Context, snapshot *Snapshot) (*Decision, error) {
	sent := qav1.EncodeInput(p.Name(), reply.Config(snapshot.Config), &snapshot.Input)
	return versioning.Ask(ctx, p.Plugin, p.client.Decide, sent, func(answer *queueadmissionv1.DecideResponse) (*Decision,
		error) {
		output, err := qav1.DecodeOutput(answer)
		if err != nil {
			return nil, err
		}
		return decided(&snapshot.Input, output)
	})
}

// decided returns the decision on input in its newest shape.
func decided(input *Input, output *qav1.DecideOutput) (*Decision, error) {
	if err := output.Validate(input); err != nil {
		return nil, err
	}
	return &Decision{Admit: output.Admit, Waiting: inOrder(input, output), RecheckAfter: output.RecheckAfter}, nil
}

// inOrder returns the waiting backups in the new order of the queue, or in the present one if the output has none.
func inOrder(input *Input, output *qav1.DecideOutput) []Waiting {
	reasons := make(map[string]Waiting, len(output.Waits))
	for _, wait := range output.Waits {
		reasons[wait.Name] = wait
	}
	order := output.Order
	if len(order) == 0 {
		for i := range input.Queued {
			order = append(order, input.Queued[i].Name)
		}
	}
	waiting := make([]Waiting, 0, len(reasons))
	for _, name := range order {
		if reason, waits := reasons[name]; waits {
			waiting = append(waiting, reason)
		}
	}
	return waiting
}
