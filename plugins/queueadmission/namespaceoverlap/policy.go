package namespaceoverlap

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/internal/walk"
)

// Name is what the policy is registered as.
const Name = "cleat.dev/namespace-overlap"

// Register registers the policy.
func Register() framework.Registration {
	return qav1.Register(Name, func(hclog.Logger) (qav1.QueueAdmission, error) { return policy{}, nil },
		framework.WithConfigSchema(`{"type":"object","additionalProperties":false}`))
}

type policy struct{}

var _ qav1.QueueAdmission = policy{}

// Decide implements qav1.QueueAdmission.
func (policy) Decide(_ context.Context, snapshot *qav1.Snapshot) (*qav1.Decision, error) {
	return walk.Decide(snapshot, walk.Queue(snapshot), walk.Rule{}), nil
}
