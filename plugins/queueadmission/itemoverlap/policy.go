package itemoverlap

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/internal/walk"
)

// Name is what the policy is registered as.
const Name = "cleat.dev/item-overlap"

// Register registers the policy.
func Register() framework.Registration {
	return qav1.Register(Name, func(hclog.Logger) (qav1.QueueAdmission, error) { return policy{}, nil },
		framework.WithConfigSchema(schema))
}

// schema is what users may write.
const schema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "sharedVolumes": {
      "description": "Whether pods and claims with different labels may be of the same volume. Default true.",
      "type": "boolean"
    }
  }
}`

// config is what users write.
type config struct {
	SharedVolumes *bool `json:"sharedVolumes"`
}

type policy struct{}

var _ qav1.QueueAdmission = policy{}

// Decide implements qav1.QueueAdmission.
func (policy) Decide(_ context.Context, snapshot *qav1.Snapshot) (*qav1.Decision, error) {
	c, err := framework.DecodeConfig[config](snapshot.Config)
	if err != nil {
		return nil, err
	}
	known := filters{known: map[*qav1.Backup]*filter{}, sharedVolumes: c.SharedVolumes == nil || *c.SharedVolumes}
	return walk.Decide(snapshot, walk.Queue(snapshot), walk.Rule{
		Key: known.key, Shares: known.share, Wide: known.wide, SharesWide: known.shareWide,
	}), nil
}
