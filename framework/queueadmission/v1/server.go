package v1

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
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
	decision, err := policy.Handler.Decide(ctx, &DecideInput{
		Now:       wire.Instant(req.GetNow()),
		Limit:     int(req.GetLimit()),
		Running:   backups(req.GetRunning()),
		Operating: backups(req.GetOperating()),
		Restoring: backups(req.GetRestoring()),
		Ready:     backups(req.GetReady()),
		Queued:    backups(req.GetQueued()),
	})
	if err != nil {
		return nil, err
	}
	if decision == nil {
		return nil, errors.New("the policy returned neither a decision nor an error")
	}
	answer := &queueadmissionv1.DecideResponse{
		Admit:        decision.Admit,
		Order:        decision.Order,
		RecheckAfter: wire.Timeout(decision.RecheckAfter),
		Waits:        make([]*queueadmissionv1.Wait, 0, len(decision.Waits)),
	}
	for _, wait := range decision.Waits {
		answer.Waits = append(answer.Waits, &queueadmissionv1.Wait{
			Name: wait.Name, Reason: wait.Reason, Message: wait.Message, Blockers: wait.Blockers, Namespaces: wait.Namespaces,
		})
	}
	return answer, nil
}

func backups(received []*queueadmissionv1.Backup) []Backup {
	known := make([]Backup, 0, len(received))
	for _, b := range received {
		known = append(known, Backup{
			Name:          b.GetName(),
			Namespaces:    b.GetNamespaces(),
			AllNamespaces: b.GetAllNamespaces(),
			ClusterScope:  clusterScope(b.GetClusterScope()),
			Labels:        b.GetLabels(),
			Annotations:   b.GetAnnotations(),
			Created:       wire.Instant(b.GetCreated()),
			Started:       wire.Instant(b.GetStarted()),
			Spec:          b.GetSpec(),
		})
	}
	return known
}

// clusterScope returns what was sent. An unknown scope becomes All, so that an overlap is never missed.
func clusterScope(received queueadmissionv1.ClusterScope) ClusterScope {
	switch received {
	case queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE:
		return ClusterScopeNone
	case queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED:
		return ClusterScopeRelated
	default:
		return ClusterScopeAll
	}
}
