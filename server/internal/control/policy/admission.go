package policy

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// Admission decides which queued backups may start. It is safe for concurrent use, but decisions about one queue must
// be made and carried out one after the other.
type Admission struct{ policy *policy }

// Decide asks the policy in force about a snapshot, and fills in its Config. The decision follows all rules of
// queueadmission.Policy, whichever plugin made it. If nothing is queued, no plugin is called.
//
// Otherwise the error is a *HeldError, whose text is meant for the waiting users, or the error of ctx when it has
// ended.
func (a *Admission) Decide(
	ctx context.Context, snapshot *queueadmission.Snapshot,
) (Outcome[*queueadmission.Decision], error) {
	if len(snapshot.Queued) == 0 {
		return Outcome[*queueadmission.Decision]{Decision: &queueadmission.Decision{}, By: a.policy.settings.Plugin}, nil
	}
	return decide(ctx, a.policy, question[queueadmission.Policy, *queueadmission.Decision]{
		call: "Decide",
		kind: kinds.QueueAdmission(),
		ask: func(ctx context.Context, plugin queueadmission.Policy, config []byte) (*queueadmission.Decision, error) {
			asked := *snapshot
			asked.Config = config
			return plugin.Decide(ctx, &asked)
		},
	})
}

// Status returns the state of the policy.
func (a *Admission) Status() serverreport.Policy { return a.policy.status() }
