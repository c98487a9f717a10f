// Command load-budget is a plugin that decides when the data of a volume may be moved: each storage class has a budget
// of loads that are prepared at once. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
)

const name = "example.cleat.dev/class-budget"

func main() { framework.Serve(register()) }

func register() framework.Registration {
	return lsv1.Register(name, newPolicy, framework.WithConfig(config{}, framework.ConfigSchema(schema)))
}

// config is the configuration of the user.
type config struct {
	Classes map[string]budget `json:"classes"` // by the name of the storage class
	Default *budget           `json:"default"` // of all other volumes together; no limit if absent
}

// budget limits the loads in preparation. Zero is no limit.
type budget struct {
	Loads     int   `json:"loads"`
	Gigabytes int64 `json:"gigabytes"` // of the volumes whose sizes are known
}

const schema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"additionalProperties": false,
	"required": ["classes"],
	"properties": {
		"classes": {"type": "object", "additionalProperties": {"$ref": "#/$defs/budget"}},
		"default": {"$ref": "#/$defs/budget"}
	},
	"$defs": {
		"budget": {
			"type": "object",
			"additionalProperties": false,
			"properties": {"loads": {"type": "integer", "minimum": 1}, "gigabytes": {"type": "integer", "minimum": 1}}
		}
	}
}`

type policy struct{ config config }

func newPolicy(_ context.Context, setup *framework.Setup) (lsv1.LoadSoothing, error) {
	return policy{framework.Config[config](setup)}, nil
}

// Admit admits a load if it fits into the budget of its class together with the loads in preparation. A single volume
// that is larger than the whole budget is admitted alone.
func (p policy) Admit(_ context.Context, input *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
	if input.Load.Kind == "" {
		return nil, errors.New("there is no load to decide about")
	}
	class, limit := p.budgetOf(input.Load.StorageClass)
	if limit == nil {
		return &lsv1.AdmitOutput{Admitted: true}, nil
	}
	var loads int
	var bytes int64
	for _, count := range input.Counts {
		if of, _ := p.budgetOf(count.StorageClass); of == class {
			loads += count.Accepted + count.Prepared
			bytes += count.Bytes
		}
	}
	most := limit.Gigabytes << 30
	switch {
	case limit.Loads > 0 && loads >= limit.Loads:
		return &lsv1.AdmitOutput{Reason: fmt.Sprintf("%s has a budget of %d loads, and as many are in preparation", class,
			limit.Loads)}, nil
	case most > 0 && loads > 0 && bytes+input.Load.Bytes > most:
		return &lsv1.AdmitOutput{Reason: fmt.Sprintf("%s has a budget of %d GiB, and too much of it is in preparation", class,
			limit.Gigabytes)}, nil
	}
	return &lsv1.AdmitOutput{Admitted: true}, nil
}

// budgetOf returns the name, for messages, and the budget of the volumes of a storage class.
func (p policy) budgetOf(class string) (string, *budget) {
	if own, found := p.config.Classes[class]; found {
		return "storage class " + class, &own
	}
	return "the rest of the storage classes", p.config.Default
}
