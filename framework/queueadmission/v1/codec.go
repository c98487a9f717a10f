package v1

import (
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework/internal/wire"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// EncodeInput returns the request to the policy registered as plugin, for hosts and for the kits that test plugins.
func EncodeInput(plugin string, config []byte, input *DecideInput) *queueadmissionv1.DecideRequest {
	return &queueadmissionv1.DecideRequest{
		Plugin:    plugin,
		Config:    config,
		Now:       wire.SentInstant(input.Now),
		Limit:     wire.Int32(input.Limit),
		Running:   encodeBackups(input.Running),
		Ready:     encodeBackups(input.Ready),
		Queued:    encodeBackups(input.Queued),
		Operating: encodeBackups(input.Operating),
		Restoring: encodeBackups(input.Restoring),

		Namespaces: encodeNamespaces(input.NamespaceLabels),
	}
}

// DecodeInput returns the input in a request.
func DecodeInput(req *queueadmissionv1.DecideRequest) *DecideInput {
	return &DecideInput{
		Now:       wire.Instant(req.GetNow()),
		Limit:     int(req.GetLimit()),
		Running:   decodeBackups(req.GetRunning()),
		Ready:     decodeBackups(req.GetReady()),
		Queued:    decodeBackups(req.GetQueued()),
		Operating: decodeBackups(req.GetOperating()),
		Restoring: decodeBackups(req.GetRestoring()),

		NamespaceLabels: decodeNamespaces(req.GetNamespaces()),
	}
}

func encodeNamespaces(labels map[string]map[string]string) []*queueadmissionv1.Namespace {
	sent := make([]*queueadmissionv1.Namespace, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		sent = append(sent, &queueadmissionv1.Namespace{Name: name, Labels: labels[name]})
	}
	return sent
}

func decodeNamespaces(received []*queueadmissionv1.Namespace) map[string]map[string]string {
	labels := make(map[string]map[string]string, len(received))
	for _, namespace := range received {
		labels[namespace.GetName()] = namespace.GetLabels()
	}
	return labels
}

func encodeBackups(backups []Backup) []*queueadmissionv1.Backup {
	sent := make([]*queueadmissionv1.Backup, 0, len(backups))
	for _, b := range backups {
		sent = append(sent, &queueadmissionv1.Backup{
			Name:          b.Name,
			Namespaces:    b.Namespaces,
			AllNamespaces: b.AllNamespaces,
			ClusterScope:  encodeScope(b.ClusterScope),
			Labels:        b.Labels,
			Annotations:   b.Annotations,
			Created:       wire.SentInstant(b.Created),
			Started:       wire.SentInstant(b.Started),
			Spec:          b.Spec,
		})
	}
	return sent
}

func decodeBackups(received []*queueadmissionv1.Backup) []Backup {
	known := make([]Backup, 0, len(received))
	for _, b := range received {
		known = append(known, Backup{
			Name:          b.GetName(),
			Namespaces:    b.GetNamespaces(),
			AllNamespaces: b.GetAllNamespaces(),
			ClusterScope:  decodeScope(b.GetClusterScope()),
			Labels:        b.GetLabels(),
			Annotations:   b.GetAnnotations(),
			Created:       wire.Instant(b.GetCreated()),
			Started:       wire.Instant(b.GetStarted()),
			Spec:          b.GetSpec(),
		})
	}
	return known
}

func encodeScope(scope ClusterScope) queueadmissionv1.ClusterScope {
	switch scope {
	case ClusterScopeNone:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE
	case ClusterScopeRelated:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED
	case ClusterScopeAll:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_ALL
	default:
		return queueadmissionv1.ClusterScope_CLUSTER_SCOPE_UNSPECIFIED
	}
}

// decodeScope returns the scope that was sent. An unknown scope becomes All, so that an overlap is never missed.
func decodeScope(received queueadmissionv1.ClusterScope) ClusterScope {
	switch received {
	case queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE:
		return ClusterScopeNone
	case queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED:
		return ClusterScopeRelated
	default:
		return ClusterScopeAll
	}
}

func encodeOutput(output *DecideOutput) *queueadmissionv1.DecideResponse {
	sent := &queueadmissionv1.DecideResponse{
		Admit:        output.Admit,
		Order:        output.Order,
		RecheckAfter: wire.Timeout(output.RecheckAfter),
		Waits:        make([]*queueadmissionv1.Wait, 0, len(output.Waits)),
	}
	for _, wait := range output.Waits {
		sent.Waits = append(sent.Waits, &queueadmissionv1.Wait{
			Name: wait.Name, Reason: wait.Reason, Message: wait.Message, Blockers: wait.Blockers, Namespaces: wait.Namespaces,
		})
	}
	return sent
}

// DecodeOutput returns the output in a reply, without a recheck if that is not a duration, which is an error. It checks
// nothing else; see DecideOutput.Validate.
func DecodeOutput(answer *queueadmissionv1.DecideResponse) (*DecideOutput, error) {
	output := &DecideOutput{Admit: answer.GetAdmit(), Order: answer.GetOrder()}
	for _, wait := range answer.GetWaits() {
		output.Waits = append(output.Waits, Wait{
			Name: wait.GetName(), Reason: wait.GetReason(), Message: wait.GetMessage(),
			Blockers: wait.GetBlockers(), Namespaces: wait.GetNamespaces(),
		})
	}
	var err error
	output.RecheckAfter, err = wire.ReceivedTimeout("recheck_after", answer.GetRecheckAfter())
	return output, err
}
