package plugintest

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// QueueAdmissionV1 returns the policy that is registered as name.
func (p *Plugin) QueueAdmissionV1(name string, options ...Option) qav1.QueueAdmission {
	p.t.Helper()
	return queueAdmissionV1{p.target(qav1.Kind().KindVersion, name), p.json(chosen(options).config),
		queueadmissionv1.NewQueueAdmissionServiceClient(p.conn)}
}

type queueAdmissionV1 struct {
	target
	config []byte
	client queueadmissionv1.QueueAdmissionServiceClient
}

func (q queueAdmissionV1) Decide(ctx context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	answer, err := q.client.Decide(ctx, &queueadmissionv1.DecideRequest{
		Plugin:  q.name,
		Config:  q.config,
		Now:     sentInstant(input.Now),
		Limit:   int32(input.Limit),
		Running: sentBackups(input.Running),
		Ready:   sentBackups(input.Ready),
		Queued:  sentBackups(input.Queued),
	})
	if err != nil {
		return nil, q.wrap(err)
	}
	decision := &qav1.DecideOutput{Admit: answer.GetAdmit(), Order: answer.GetOrder(),
		RecheckAfter: answer.GetRecheckAfter().AsDuration()}
	for _, wait := range answer.GetWaits() {
		decision.Waits = append(decision.Waits, qav1.Wait{
			Name: wait.GetName(), Reason: wait.GetReason(), Message: wait.GetMessage(),
			Blockers: wait.GetBlockers(), Namespaces: wait.GetNamespaces(),
		})
	}
	return decision, nil
}

func sentBackups(backups []qav1.Backup) []*queueadmissionv1.Backup {
	scopes := map[qav1.ClusterScope]queueadmissionv1.ClusterScope{
		qav1.ClusterScopeNone:    queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE,
		qav1.ClusterScopeRelated: queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED,
		qav1.ClusterScopeAll:     queueadmissionv1.ClusterScope_CLUSTER_SCOPE_ALL,
	}
	var sent []*queueadmissionv1.Backup
	for _, b := range backups {
		sent = append(sent, &queueadmissionv1.Backup{
			Name:          b.Name,
			Namespaces:    b.Namespaces,
			AllNamespaces: b.AllNamespaces,
			ClusterScope:  scopes[b.ClusterScope],
			Labels:        b.Labels,
			Annotations:   b.Annotations,
			Created:       sentInstant(b.Created),
			Started:       sentInstant(b.Started),
			Spec:          b.Spec,
		})
	}
	return sent
}

// sentInstant returns at as it is sent; an unknown time is left out.
func sentInstant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
