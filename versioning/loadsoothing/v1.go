package loadsoothing

import (
	"context"

	"google.golang.org/grpc"

	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Policy] {
	return versioning.NewVersion(lsv1.Kind(), newV1, versioning.Calls{
		loadsoothingv1.LoadSoothingService_Admit_FullMethodName: {Class: versioning.Decision, Repeatable: true},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Policy {
	return v1{Plugin: p, client: loadsoothingv1.NewLoadSoothingServiceClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client loadsoothingv1.LoadSoothingServiceClient
}

func (p v1) Admit(ctx context.Context, request *Request) (*Decision, error) {
	sent := lsv1.EncodeInput(p.Name(), reply.Config(request.Config), &request.Input)
	return versioning.Ask(ctx, p.Plugin, p.client.Admit, sent, func(answer *loadsoothingv1.AdmitResponse) (*Decision,
		error) {
		decision, err := lsv1.DecodeOutput(answer)
		if decision.Admitted {
			return &Decision{Admitted: true}, nil
		}
		if err != nil {
			return nil, err
		}
		return decision, decision.Validate()
	})
}
