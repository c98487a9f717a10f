package v1

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[LoadSoothing] {
	return hostapi.Kind[LoadSoothing]{
		KindVersion: hostapi.KindVersion{
			Wire: "LoadSoothing", Probe: loadsoothingv1.LoadSoothingService_Admit_FullMethodName,
			Policy: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[LoadSoothing]) {
	loadsoothingv1.RegisterLoadSoothingServiceServer(registrar, &server{handlers: handlers})
}

// server puts the policies of a process on the wire.
type server struct {
	loadsoothingv1.UnimplementedLoadSoothingServiceServer
	handlers *glue.Handlers[LoadSoothing]
}

func (s *server) Admit(ctx context.Context, req *loadsoothingv1.AdmitRequest) (*loadsoothingv1.AdmitResponse, error) {
	policy, err := s.handlers.UseWith(ctx, req.GetPlugin(), req.GetConfig())
	if err != nil {
		return nil, err
	}
	defer policy.Release()
	decision, err := policy.Handler.Admit(ctx, input(req))
	if err != nil {
		return nil, err
	}
	if decision == nil {
		return nil, errors.New("the policy returned neither a decision nor an error")
	}
	return &loadsoothingv1.AdmitResponse{
		Admitted:   decision.Admitted,
		Reason:     decision.Reason,
		RetryAfter: wire.Timeout(decision.RetryAfter),
	}, nil
}

func input(req *loadsoothingv1.AdmitRequest) *AdmitInput {
	received := &AdmitInput{
		Now:   wire.Instant(req.GetNow()),
		Limit: int(req.GetLimit()),
		Load: Load{
			Kind:    req.GetLoad().GetKind(),
			Name:    req.GetLoad().GetName(),
			Node:    req.GetLoad().GetNode(),
			Created: wire.Instant(req.GetLoad().GetCreated()),
			Ahead:   int(req.GetLoad().GetAhead()),

			StorageClass: req.GetLoad().GetStorageClass(),
			Namespace:    req.GetLoad().GetNamespace(),
			Bytes:        req.GetLoad().GetBytes(),
			Owner:        req.GetLoad().GetOwner(),
		},
	}
	for _, count := range req.GetCounts() {
		received.Counts = append(received.Counts, Count{
			Kind: count.GetKind(), Node: count.GetNode(),
			Accepted: int(count.GetAccepted()), Prepared: int(count.GetPrepared()),
			StorageClass: count.GetStorageClass(), Namespace: count.GetNamespace(), Owner: count.GetOwner(),
			Bytes: count.GetBytes(),
		})
	}
	return received
}
