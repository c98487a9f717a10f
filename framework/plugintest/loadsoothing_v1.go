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
	answer, err := l.client.Admit(ctx, lsv1.EncodeInput(l.name, l.config, input))
	if err != nil {
		return nil, l.wrap(err)
	}
	output, err := lsv1.DecodeOutput(answer)
	return output, l.wrap(err)
}
