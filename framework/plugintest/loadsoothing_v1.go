package plugintest

import (
	"context"

	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
)

// LoadSoothingV1 returns the policy that is registered as name.
func (p *Plugin) LoadSoothingV1(name string, options ...Option) lsv1.LoadSoothing {
	p.t.Helper()
	return loadSoothingV1{p.target(lsv1.Kind().KindVersion, name), p.json(chosen(options).config),
		loadsoothingv1.NewLoadSoothingServiceClient(p.conn)}
}

type loadSoothingV1 struct {
	target
	config []byte
	client loadsoothingv1.LoadSoothingServiceClient
}

func (l loadSoothingV1) Admit(ctx context.Context, input *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
	sent := &loadsoothingv1.AdmitRequest{
		Plugin: l.name,
		Config: l.config,
		Now:    sentInstant(input.Now),
		Limit:  int32(input.Limit),
		Load: &loadsoothingv1.Load{
			Kind: input.Load.Kind, Name: input.Load.Name, Node: input.Load.Node,
			Created: sentInstant(input.Load.Created), Ahead: int32(input.Load.Ahead),
			StorageClass: input.Load.StorageClass, Namespace: input.Load.Namespace, Bytes: input.Load.Bytes,
			Owner: input.Load.Owner,
		},
	}
	for _, count := range input.Counts {
		sent.Counts = append(sent.Counts, &loadsoothingv1.Count{
			Kind: count.Kind, Node: count.Node, Accepted: int32(count.Accepted), Prepared: int32(count.Prepared),
			StorageClass: count.StorageClass, Namespace: count.Namespace, Owner: count.Owner, Bytes: count.Bytes,
		})
	}
	answer, err := l.client.Admit(ctx, sent)
	if err != nil {
		return nil, l.wrap(err)
	}
	return &lsv1.AdmitOutput{
		Admitted: answer.GetAdmitted(), Reason: answer.GetReason(), RetryAfter: answer.GetRetryAfter().AsDuration(),
	}, nil
}
