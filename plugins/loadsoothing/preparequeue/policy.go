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
		},
		"placesForRestores": {
			"description": "How many of these places only loads of restores may take. One place is always left to backups.",
			"type": "integer",
			"minimum": 0
		}
	}
}`

type config struct {
	Loads             int `json:"loads"`
	PlacesForRestores int `json:"placesForRestores"`
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
	free := most - preparing
	switch {
	case most <= 0:
		return &loadsoothing.AdmitOutput{Admitted: true}, nil
	case free <= 0:
		return wait("%d loads are in preparation, and no more than %d may be at once", preparing, most)
	case input.Load.Restores():
		return &loadsoothing.AdmitOutput{Admitted: true}, nil
	}
	kept := min(p.config.PlacesForRestores, most-1) - input.PreparingRestores()
	switch waiting := input.Load.RestoresWaiting; {
	case free <= waiting:
		return wait("%d loads of restores go first, and %d of %d places are free", waiting, free, most)
	case free <= kept:
		return wait("%d of %d places are free, and %d are kept for restores", free, most, kept)
	}
	return &loadsoothing.AdmitOutput{Admitted: true}, nil
}

func wait(format string, args ...any) (*loadsoothing.AdmitOutput, error) {
	return &loadsoothing.AdmitOutput{Reason: fmt.Sprintf(format, args...)}, nil
}
