package plugintest

import (
	"context"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// QueueAdmissionV1 returns the policy that is registered as name.
func (p *Plugin) QueueAdmissionV1(name string, options ...Option) qav1.QueueAdmission {
	p.t.Helper()
	return queueAdmissionV1{p.target(qav1.Kind().KindVersion, name), p.json(chosen(options).config),
		queueadmissionv1.NewQueueAdmissionServiceClient(p.conn)}
}

type queueAdmissionV1 struct {
	target
	config []byte
	client queueadmissionv1.QueueAdmissionServiceClient
}

func (q queueAdmissionV1) Decide(ctx context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	answer, err := q.client.Decide(ctx, qav1.EncodeInput(q.name, q.config, input))
	if err != nil {
		return nil, q.wrap(err)
	}
	output, err := qav1.DecodeOutput(answer)
	return output, q.wrap(err)
}
