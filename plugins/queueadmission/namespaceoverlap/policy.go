package namespaceoverlap

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/internal/walk"
)

// Name is the registered name of the policy.
const Name = "cleat.dev/namespace-overlap"

// Register returns the policy's registration.
func Register() framework.Registration {
	return qav1.Register(Name, func(context.Context, *framework.Setup) (qav1.QueueAdmission, error) {
		return policy{}, nil
	},
		framework.WithConfig(struct{}{}))
}

type policy struct{}

var _ qav1.QueueAdmission = policy{}

// Decide implements qav1.QueueAdmission.
func (policy) Decide(_ context.Context, snapshot *qav1.DecideInput) (*qav1.DecideOutput, error) {
	return walk.Decide(snapshot, walk.Queue(snapshot), walk.Rule{}), nil
}
