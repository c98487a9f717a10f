package fifo

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	queueadmission "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// Name is the registered name of the policy.
const Name = "cleat.dev/fifo"

const schema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"description": "cleat.dev/fifo takes no configuration.",
	"type": "object",
	"additionalProperties": false
}`

// Register returns the policy's registration.
func Register() framework.Registration {
	return queueadmission.Register(Name, func(context.Context, *framework.Setup) (queueadmission.QueueAdmission, error) {
		return policy{}, nil
	}, framework.WithConfig(struct{}{}, framework.ConfigSchema(schema)))
}

type policy struct{}

var _ queueadmission.QueueAdmission = policy{}

// Decide implements queueadmission.QueueAdmission.
func (policy) Decide(_ context.Context, snapshot *queueadmission.DecideInput) (*queueadmission.DecideOutput, error) {
	admitted := min(snapshot.Free(), len(snapshot.Queued))
	decision := &queueadmission.DecideOutput{}
	started := len(snapshot.Running) + len(snapshot.Ready) + admitted
	for i := range snapshot.Queued[:admitted] {
		decision.Admit = append(decision.Admit, snapshot.Queued[i].Name)
	}
	for i := range snapshot.Queued[admitted:] {
		decision.Waits = append(decision.Waits, queueadmission.Wait{
			// It names no blockers: the end of any backup frees a slot.
			Name: snapshot.Queued[admitted+i].Name, Reason: "Limit", Message: message(started, snapshot.Limit, i),
		})
	}
	return decision, nil
}

// message returns why a backup waits that has the given number of others ahead of it in the queue.
func message(started, limit, ahead int) string {
	text := fmt.Sprintf("%s been started, and no more than %d may be at once; ",
		count(started, "backup has", "backups have"), limit)
	if ahead == 0 {
		return text + "it is the next"
	}
	return text + count(ahead, "more is", "more are") + " before it in the queue"
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
