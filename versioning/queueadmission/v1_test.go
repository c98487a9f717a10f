package queueadmission_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

const name = "example.io/first-come"

// policy is an author's policy.
type policy func(*qav1.DecideInput) (*qav1.DecideOutput, error)

func (p policy) Decide(_ context.Context, snapshot *qav1.DecideInput) (*qav1.DecideOutput, error) {
	return p(snapshot)
}

// author returns the hub over an author's implementation.
func author(t *testing.T, written policy) queueadmission.Policy {
	t.Helper()
	return queueadmission.V1().Bind(
		plugintest.Serve(t, qav1.Register(name, func(context.Context, *framework.Setup) (qav1.QueueAdmission, error) {
			return written, nil
		}, framework.WithConfig(map[string]any{}))), name)
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	queueadmissionv1.UnimplementedQueueAdmissionServiceServer
	answer *queueadmissionv1.DecideResponse
}

func (r raw) Decide(context.Context, *queueadmissionv1.DecideRequest) (*queueadmissionv1.DecideResponse, error) {
	return r.answer, nil
}

func (r raw) hub(t *testing.T) queueadmission.Policy {
	t.Helper()
	return queueadmission.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		queueadmissionv1.RegisterQueueAdmissionServiceServer(server, r)
	}), name)
}

func at(hour int) time.Time { return time.Date(2026, 5, 1, hour, 0, 0, 0, time.UTC) }

func snapshot() *queueadmission.Snapshot {
	return &queueadmission.Snapshot{Config: []byte(`{"freeze":"sunday"}`),
		Input: queueadmission.Input{Now: at(12), Limit: 3,
			NamespaceLabels: map[string]map[string]string{"n1": {"priority": "high"}},
			Running: []queueadmission.Backup{{Name: "a", Namespaces: []string{"n1"},
				ClusterScope: queueadmission.ClusterScopeNone, Created: at(8), Started: at(9), Spec: []byte("{}")}},
			Operating: []queueadmission.Backup{{Name: "o", Namespaces: []string{"n3"},
				ClusterScope: queueadmission.ClusterScopeNone, Created: at(7), Started: at(8), Spec: []byte("{}")}},
			Restoring: []queueadmission.Backup{{Name: "restores/r", AllNamespaces: true,
				ClusterScope: queueadmission.ClusterScopeAll, Created: at(7), Started: at(7), Spec: []byte("{}")}},
			Ready: []queueadmission.Backup{{Name: "b", ClusterScope: queueadmission.ClusterScopeRelated, Created: at(10),
				Spec: []byte("{}")}},
			Queued: []queueadmission.Backup{
				{
					Name: "c", Namespaces: []string{"n1", "n2"}, AllNamespaces: true, ClusterScope: queueadmission.ClusterScopeAll,
					Labels: map[string]string{"velero.io/schedule-name": "nightly"}, Annotations: map[string]string{
						"priority": "high",
					},
					Created: at(11), Spec: []byte(`{"includedNamespaces":["*"]}`),
				},
				{Name: "d", ClusterScope: queueadmission.ClusterScopeNone, Created: at(12), Spec: []byte("garbage")},
			},
		}}
}

func TestPolicySeesWholeSnapshot(t *testing.T) {
	t.Parallel()
	seen := make(chan *qav1.DecideInput, 1)
	_, err := author(t, func(snapshot *qav1.DecideInput) (*qav1.DecideOutput, error) {
		seen <- snapshot
		return nil, errors.New("seen")
	}).Decide(t.Context(), snapshot())
	require.EqualError(t, err, "QueueAdmission(example.io/first-come): seen")
	got := <-seen
	require.Equal(t, &qav1.DecideInput{
		Now: at(12), Limit: 3,
		Operating: []qav1.Backup{{Name: "o", Namespaces: []string{"n3"}, ClusterScope: qav1.ClusterScopeNone, Created: at(7),
			Started: at(8), Spec: []byte("{}")}},
		Running: []qav1.Backup{{Name: "a", Namespaces: []string{"n1"}, ClusterScope: qav1.ClusterScopeNone, Created: at(8),
			Started: at(9), Spec: []byte("{}")}},
		Restoring: []qav1.Backup{{Name: "restores/r", AllNamespaces: true, ClusterScope: qav1.ClusterScopeAll, Created: at(7),
			Started: at(7), Spec: []byte("{}")}},
		Ready: []qav1.Backup{{Name: "b", ClusterScope: qav1.ClusterScopeRelated, Created: at(10), Spec: []byte("{}")}},
		Queued: []qav1.Backup{
			{
				Name: "c", Namespaces: []string{"n1", "n2"}, AllNamespaces: true, ClusterScope: qav1.ClusterScopeAll,
				Labels: map[string]string{"velero.io/schedule-name": "nightly"}, Annotations: map[string]string{"priority": "high"},
				Created: at(11), Spec: []byte(`{"includedNamespaces":["*"]}`),
			},
			{Name: "d", ClusterScope: qav1.ClusterScopeNone, Created: at(12), Spec: []byte("garbage")},
		},
		NamespaceLabels: map[string]map[string]string{"n1": {"priority": "high"}},
	}, got)
	require.Equal(t, 1, got.Free())
	spec, err := got.Queued[0].DecodeSpec()
	require.NoError(t, err)
	require.Equal(t, []string{"*"}, spec.IncludedNamespaces)
	_, err = got.Queued[1].DecodeSpec()
	require.ErrorContains(t, err, "decode the spec of backup d: ")
}

func TestPolicyIsConstructedWithItsConfig(t *testing.T) {
	t.Parallel()
	policy := queueadmission.V1().Bind(
		plugintest.Serve(t, qav1.Register(name, func(_ context.Context, setup *framework.Setup) (qav1.QueueAdmission, error) {
			config := framework.Config[map[string]any](setup)
			return policy(func(*qav1.DecideInput) (*qav1.DecideOutput, error) { return nil, fmt.Errorf("config %v", config) }),
				nil
		}, framework.WithConfig(map[string]any{}))), name)
	_, err := policy.Decide(t.Context(), snapshot())
	require.EqualError(t, err, "QueueAdmission(example.io/first-come): config map[freeze:sunday]")
	bare := snapshot()
	bare.Config = nil
	_, err = policy.Decide(t.Context(), bare)
	require.EqualError(t, err, "QueueAdmission(example.io/first-come): config map[]")
}

func TestDecisionArrivesCompleteAndInNewOrder(t *testing.T) {
	t.Parallel()
	decision, err := author(t, func(*qav1.DecideInput) (*qav1.DecideOutput, error) {
		return &qav1.DecideOutput{
			Admit: []string{"d"}, Order: []string{"c"}, RecheckAfter: time.Minute,
			Waits: []qav1.Wait{{Name: "c", Reason: "NamespaceOverlap", Message: "waits for a", Blockers: []string{"a", "d"},
				Namespaces: []string{"n1"}}},
		}, nil
	}).Decide(t.Context(), snapshot())
	require.NoError(t, err)
	require.Equal(t, &queueadmission.Decision{
		Admit: []string{"d"}, RecheckAfter: time.Minute,
		Waiting: []queueadmission.Waiting{{Name: "c", Reason: "NamespaceOverlap", Message: "waits for a",
			Blockers: []string{"a", "d"}, Namespaces: []string{"n1"}}},
	}, decision)
}

func TestNoDecisionIsAnError(t *testing.T) {
	t.Parallel()
	_, err := author(t, func(*qav1.DecideInput) (*qav1.DecideOutput, error) { return nil, nil }).Decide(t.Context(),
		snapshot())
	require.ErrorContains(t, err, "neither a decision nor an error")
}

func TestInvalidDecisionsAreRejected(t *testing.T) {
	t.Parallel()
	fine := []*queueadmissionv1.Wait{{Name: "c", Reason: "Limit", Message: "m"},
		{Name: "d", Reason: "Limit", Message: "m"}}
	for name, test := range map[string]struct {
		answer *queueadmissionv1.DecideResponse
		want   string
	}{
		"nothing": {&queueadmissionv1.DecideResponse{}, `does not say why "c" waits`},
		"too many": {&queueadmissionv1.DecideResponse{Admit: []string{"c", "d"}},
			"admits 2 backups, and 1 of 3 slots are free"},
		"a recheck at once": {&queueadmissionv1.DecideResponse{Waits: fine, RecheckAfter: durationpb.New(1)},
			"recheck_after is 1ns"},
		"a recheck before": {&queueadmissionv1.DecideResponse{Waits: fine, RecheckAfter: durationpb.New(-time.Hour)},
			"recheck_after is -1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision, err := raw{answer: test.answer}.hub(t).Decide(t.Context(), snapshot())
			require.Nil(t, decision)
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "QueueAdmission(example.io/first-come): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
}
