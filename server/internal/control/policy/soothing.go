package policy

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
)

// Soothing decides whether a load may begin to prepare. It is safe for concurrent use.
type Soothing struct{ policy *policy }

// Admit asks the policy in force about one load, and fills in Config of the request. The error is a *HeldError, whose
// text can be shown with the load, or the error of ctx when it has ended; the load stays New.
func (s *Soothing) Admit(ctx context.Context, request *loadsoothing.Request) (Outcome[*loadsoothing.Decision], error) {
	return decide(ctx, s.policy, question[loadsoothing.Policy, *loadsoothing.Decision]{
		call: "Admit",
		kind: kinds.LoadSoothing(),
		ask: func(ctx context.Context, plugin loadsoothing.Policy, config []byte) (*loadsoothing.Decision, error) {
			asked := *request
			asked.Config = config
			return plugin.Admit(ctx, &asked)
		},
	})
}

// Status returns the state of the policy.
func (s *Soothing) Status() serverreport.Policy { return s.policy.status() }
