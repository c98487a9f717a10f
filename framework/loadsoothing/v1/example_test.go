package v1_test

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
)

// settings is the configuration of the policy.
type settings struct {
	Loads int `json:"loads" jsonschema:"the largest number of loads that prepare at a time"`
}

// budget admits a load while fewer than a number of loads prepare.
type budget struct{ loads int }

func newBudget(_ context.Context, setup *framework.Setup) (lsv1.LoadSoothing, error) {
	return budget{loads: framework.Config[settings](setup).Loads}, nil
}

func (b budget) Admit(_ context.Context, input *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
	if preparing := input.Preparing(); preparing >= b.loads {
		return &lsv1.AdmitOutput{Reason: fmt.Sprintf("%d loads prepare, the limit is %d", preparing, b.loads)}, nil
	}
	return &lsv1.AdmitOutput{Admitted: true}, nil
}

func Example() {
	registration := lsv1.Register("example.io/budget", newBudget, framework.WithConfig(settings{Loads: 5}))
	fmt.Println(registration.Kind(), registration.Name())

	output, err := budget{loads: 2}.Admit(context.TODO(), &lsv1.AdmitInput{
		Load: lsv1.Load{Kind: "DataUpload", Name: "a"}, Counts: []lsv1.Count{{Kind: "DataUpload", Accepted: 1, Prepared: 1}},
	})
	fmt.Println(output.Admitted, output.Reason, err)
	// Output:
	// LoadSoothing example.io/budget
	// false 2 loads prepare, the limit is 2 <nil>
}
