package v1

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[QueueAdmission] {
	return hostapi.Kind[QueueAdmission]{
		KindVersion: hostapi.KindVersion{
			Wire: "QueueAdmission", Probe: queueadmissionv1.QueueAdmissionService_Decide_FullMethodName,
			Policy: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[QueueAdmission]) {
	queueadmissionv1.RegisterQueueAdmissionServiceServer(registrar, &server{handlers: handlers})
}

// server puts the policies of a process on the wire.
type server struct {
	queueadmissionv1.UnimplementedQueueAdmissionServiceServer
	handlers *glue.Handlers[QueueAdmission]
}

func (s *server) Decide(
	ctx context.Context, req *queueadmissionv1.DecideRequest,
) (*queueadmissionv1.DecideResponse, error) {
	policy, err := s.handlers.UseWith(ctx, req.GetPlugin(), req.GetConfig())
	if err != nil {
		return nil, err
	}
	defer policy.Release()
	decision, err := policy.Handler.Decide(ctx, DecodeInput(req))
	if err != nil {
		return nil, err
	}
	if decision == nil {
		return nil, errors.New("the policy returned neither a decision nor an error")
	}
	return encodeOutput(decision), nil
}
