package loadsoothing

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	sent := &loadsoothingv1.AdmitRequest{
		Plugin: p.Name(),
		Config: reply.Config(request.Config),
		Now:    timestamppb.New(request.Now),
		Limit:  reply.Int32(request.Limit),
		Load: &loadsoothingv1.Load{
			Kind:    request.Load.Kind,
			Name:    request.Load.Name,
			Node:    request.Load.Node,
			Created: timestamppb.New(request.Load.Created),
			Ahead:   reply.Int32(request.Load.Ahead),

			StorageClass: request.Load.StorageClass,
			Namespace:    request.Load.Namespace,
			Bytes:        request.Load.Bytes,
			Owner:        request.Load.Owner,
		},
	}
	for _, count := range request.Counts {
		sent.Counts = append(sent.Counts, &loadsoothingv1.Count{
			Kind: count.Kind, Node: count.Node,
			Accepted: reply.Int32(count.Accepted), Prepared: reply.Int32(count.Prepared),
			StorageClass: count.StorageClass, Namespace: count.Namespace, Owner: count.Owner, Bytes: count.Bytes,
		})
	}
	return versioning.Ask(ctx, p.Plugin, p.client.Admit, sent, func(answer *loadsoothingv1.AdmitResponse) (*Decision,
		error) {
		if answer.GetAdmitted() {
			return &Decision{Admitted: true}, nil
		}
		retryAfter, err := reply.Timeout("retry_after", answer.GetRetryAfter())
		if err != nil {
			return nil, err
		}
		return &Decision{Reason: answer.GetReason(), RetryAfter: retryAfter}, validateRefusal(answer.GetReason(), retryAfter)
	})
}
