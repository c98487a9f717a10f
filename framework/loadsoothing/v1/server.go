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
	decision, err := policy.Handler.Admit(ctx, decodeInput(req))
	if err != nil {
		return nil, err
	}
	if decision == nil {
		return nil, errors.New("the policy returned neither a decision nor an error")
	}
	return encodeOutput(decision), nil
}

// EncodeInput returns the request to the policy registered as plugin, for hosts and for the kits that test plugins.
func EncodeInput(plugin string, config []byte, input *AdmitInput) *loadsoothingv1.AdmitRequest {
	sent := &loadsoothingv1.AdmitRequest{
		Plugin: plugin,
		Config: config,
		Now:    wire.SentInstant(input.Now),
		Limit:  wire.Int32(input.Limit),
		Load: &loadsoothingv1.Load{
			Kind:         input.Load.Kind,
			Name:         input.Load.Name,
			Node:         input.Load.Node,
			Created:      wire.SentInstant(input.Load.Created),
			Ahead:        wire.Int32(input.Load.Ahead),
			StorageClass: input.Load.StorageClass,
			Namespace:    input.Load.Namespace,
			Bytes:        input.Load.Bytes,
			Owner:        input.Load.Owner,

			RestoresWaiting: wire.Int32(input.Load.RestoresWaiting),
		},
	}
	for _, count := range input.Counts {
		sent.Counts = append(sent.Counts, &loadsoothingv1.Count{
			Kind: count.Kind, Node: count.Node,
			Accepted: wire.Int32(count.Accepted), Prepared: wire.Int32(count.Prepared),
			StorageClass: count.StorageClass, Namespace: count.Namespace, Owner: count.Owner, Bytes: count.Bytes,
		})
	}
	return sent
}

func decodeInput(req *loadsoothingv1.AdmitRequest) *AdmitInput {
	received := &AdmitInput{
		Now:   wire.Instant(req.GetNow()),
		Limit: int(req.GetLimit()),
		Load: Load{
			Kind:         req.GetLoad().GetKind(),
			Name:         req.GetLoad().GetName(),
			Node:         req.GetLoad().GetNode(),
			Created:      wire.Instant(req.GetLoad().GetCreated()),
			Ahead:        int(req.GetLoad().GetAhead()),
			StorageClass: req.GetLoad().GetStorageClass(),
			Namespace:    req.GetLoad().GetNamespace(),
			Bytes:        req.GetLoad().GetBytes(),
			Owner:        req.GetLoad().GetOwner(),

			RestoresWaiting: int(req.GetLoad().GetRestoresWaiting()),
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

func encodeOutput(output *AdmitOutput) *loadsoothingv1.AdmitResponse {
	return &loadsoothingv1.AdmitResponse{
		Admitted: output.Admitted, Reason: output.Reason, RetryAfter: wire.Timeout(output.RetryAfter),
	}
}

// DecodeOutput returns the output in a reply. It checks only that the reply has one; see AdmitOutput.Validate.
func DecodeOutput(answer *loadsoothingv1.AdmitResponse) (*AdmitOutput, error) {
	retryAfter, err := wire.ReceivedTimeout("retry_after", answer.GetRetryAfter())
	return &AdmitOutput{Admitted: answer.GetAdmitted(), Reason: answer.GetReason(), RetryAfter: retryAfter}, err
}
