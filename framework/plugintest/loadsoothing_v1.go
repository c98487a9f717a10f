package plugintest

import (
	"context"

	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
)

// LoadSoothingV1 is the policy that is registered as name.
func (p *Plugin) LoadSoothingV1(name string) lsv1.LoadSoothing {
	p.t.Helper()
	return loadSoothingV1{p.target(lsv1.Kind().Wire, name), loadsoothingv1.NewLoadSoothingServiceClient(p.conn)}
}

type loadSoothingV1 struct {
	target
	client loadsoothingv1.LoadSoothingServiceClient
}

func (l loadSoothingV1) Admit(ctx context.Context, request *lsv1.Request) (*lsv1.Decision, error) {
	sent := &loadsoothingv1.AdmitRequest{
		Plugin: l.name,
		Config: request.Config,
		Now:    sentInstant(request.Now),
		Limit:  int32(request.Limit),
		Load: &loadsoothingv1.Load{
			Kind: request.Load.Kind, Name: request.Load.Name, Node: request.Load.Node,
			Created: sentInstant(request.Load.Created), Ahead: int32(request.Load.Ahead),
		},
	}
	for _, count := range request.Counts {
		sent.Counts = append(sent.Counts, &loadsoothingv1.Count{
			Kind: count.Kind, Node: count.Node, Accepted: int32(count.Accepted), Prepared: int32(count.Prepared),
		})
	}
	answer, err := l.client.Admit(ctx, sent)
	if err != nil {
		return nil, l.wrap(err)
	}
	return &lsv1.Decision{
		Admitted: answer.GetAdmitted(), Reason: answer.GetReason(), RetryAfter: answer.GetRetryAfter().AsDuration(),
	}, nil
}
