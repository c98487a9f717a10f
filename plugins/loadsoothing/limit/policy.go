package limit

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	loadsoothing "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
)

// Name is the policy's.
const Name = "cleat.dev/limit"

const schema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"additionalProperties": false,
	"properties": {
		"loads": {
			"description": "How many loads may be in preparation at once, instead of the node agent's prepareQueueLength.",
			"type": "integer",
			"minimum": 1
		}
	}
}`

type config struct {
	Loads int `json:"loads"`
}

// Register registers the policy.
func Register() framework.Registration {
	return loadsoothing.Register(Name, func(hclog.Logger) (loadsoothing.LoadSoothing, error) {
		return policy{}, nil
	}, framework.WithConfigSchema(schema))
}

type policy struct{}

var _ loadsoothing.LoadSoothing = policy{}

// Admit implements loadsoothing.LoadSoothing.
func (policy) Admit(_ context.Context, request *loadsoothing.Request) (*loadsoothing.Decision, error) {
	configured, err := framework.DecodeConfig[config](request.Config)
	if err != nil {
		return nil, err
	}
	preparing, most := request.Preparing(), cmp.Or(configured.Loads, request.Limit)
	if most > 0 && preparing >= most {
		return &loadsoothing.Decision{
			Reason: fmt.Sprintf("%d loads are in preparation, and no more than %d may be at once", preparing, most),
		}, nil
	}
	return &loadsoothing.Decision{Admitted: true}, nil
}
