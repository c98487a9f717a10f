package queueadmission

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Policy] {
	return versioning.NewVersion(qav1.Kind(), newV1, versioning.Calls{
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName: {Class: versioning.Decision, Repeatable: true},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Policy {
	return v1{Plugin: p, client: queueadmissionv1.NewQueueAdmissionServiceClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client queueadmissionv1.QueueAdmissionServiceClient
}

func (p v1) Decide(ctx context.Context, snapshot *Snapshot) (*Decision, error) {
	return versioning.Ask(ctx, p.Plugin, p.client.Decide, &queueadmissionv1.DecideRequest{
		Plugin:    p.Name(),
		Config:    reply.Config(snapshot.Config),
		Now:       timestamppb.New(snapshot.Now),
		Limit:     reply.Int32(snapshot.Limit),
		Running:   sentBackups(snapshot.Running),
		Operating: sentBackups(snapshot.Operating),
		Restoring: sentBackups(snapshot.Restoring),
		Ready:     sentBackups(snapshot.Ready),
		Queued:    sentBackups(snapshot.Queued),
	}, func(answer *queueadmissionv1.DecideResponse) (*Decision, error) {
		decision, err := checkDecision(snapshot, answered(answer))
		if err != nil {
			return nil, err
		}
		if decision.RecheckAfter, err = reply.Timeout("recheck_after", answer.GetRecheckAfter()); err != nil {
			return nil, err
		}
		return decision, validateRecheck(decision.RecheckAfter)
	})
}

// answered returns the reply in the types of the hub, unchecked.
func answered(answer *queueadmissionv1.DecideResponse) unchecked {
	received := unchecked{admit: answer.GetAdmit(), order: answer.GetOrder(),
		waits: make([]Waiting, 0, len(answer.GetWaits()))}
	for _, wait := range answer.GetWaits() {
		received.waits = append(received.waits, Waiting{
			Name: wait.GetName(), Reason: wait.GetReason(), Message: wait.GetMessage(),
			Blockers: wait.GetBlockers(), Namespaces: wait.GetNamespaces(),
		})
	}
	return received
}

func sentBackups(backups []Backup) []*queueadmissionv1.Backup {
	sent := make([]*queueadmissionv1.Backup, 0, len(backups))
	for _, b := range backups {
		sent = append(sent, &queueadmissionv1.Backup{
			Name:          b.Name,
			Namespaces:    b.Namespaces,
			AllNamespaces: b.AllNamespaces,
			ClusterScope:  sentScope(b.ClusterScope),
			Labels:        b.Labels,
			Annotations:   b.Annotations,
			Created:       timestamppb.New(b.Created),
			Started:       sentInstant(b.Started),
			Spec:          b.Spec,
		})
	}
	return sent
}

func sentScope(scope ClusterScope) queueadmissionv1.ClusterScope {
	switch scope {
	case ClusterScopeNone:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE
	case ClusterScopeRelated:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED
	default:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_ALL
	}
}

func sentInstant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
