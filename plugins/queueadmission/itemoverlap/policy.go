package itemoverlap

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/internal/walk"
)

// Name is the registered name of the policy.
const Name = "cleat.dev/item-overlap"

// Register returns the policy's registration.
func Register() framework.Registration {
	return qav1.Register(Name, func(_ context.Context, setup *framework.Setup) (qav1.QueueAdmission, error) {
		return policy{framework.Config[config](setup)}, nil
	}, framework.WithConfig(config{SharedVolumes: true}))
}

// config is the configuration that users write.
type config struct {
	SharedVolumes bool `json:"sharedVolumes" jsonschema:"Whether pods and claims with different labels may be of the same volume."`
}

type policy struct{ config config }

var _ qav1.QueueAdmission = policy{}

// Decide implements qav1.QueueAdmission.
func (p policy) Decide(_ context.Context, snapshot *qav1.DecideInput) (*qav1.DecideOutput, error) {
	known := filters{known: map[*qav1.Backup]*filter{}, sharedVolumes: p.config.SharedVolumes}
	return walk.Decide(snapshot, walk.Queue(snapshot), walk.Rule{
		Key: known.key, Shares: known.share, Wide: known.wide, SharesWide: known.shareWide, Restores: true,
	}), nil
}
