package preparequeue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	loadsoothing "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
)

// Name is the registered name of the policy.
const Name = "cleat.dev/prepare-queue"

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

// Register returns the policy's registration.
func Register() framework.Registration {
	return loadsoothing.Register(Name, func(_ context.Context, setup *framework.Setup) (loadsoothing.LoadSoothing, error) {
		return policy{framework.Config[config](setup)}, nil
	}, framework.WithConfig(config{}, framework.ConfigSchema(schema)))
}

type policy struct{ config config }

var _ loadsoothing.LoadSoothing = policy{}

// Admit implements loadsoothing.LoadSoothing.
func (p policy) Admit(_ context.Context, input *loadsoothing.AdmitInput) (*loadsoothing.AdmitOutput, error) {
	preparing, most := input.Preparing(), cmp.Or(p.config.Loads, input.Limit)
	if most > 0 && preparing >= most {
		return &loadsoothing.AdmitOutput{
			Reason: fmt.Sprintf("%d loads are in preparation, and no more than %d may be at once", preparing, most),
		}, nil
	}
	return &loadsoothing.AdmitOutput{Admitted: true}, nil
}
