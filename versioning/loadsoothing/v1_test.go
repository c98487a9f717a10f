package loadsoothing_test

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
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
)

const name = "example.io/limit"

// policy is an author's policy.
type policy func(*lsv1.AdmitInput) (*lsv1.AdmitOutput, error)

func (p policy) Admit(_ context.Context, request *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
	return p(request)
}

// author returns the hub over an author's implementation.
func author(t *testing.T, written policy) loadsoothing.Policy {
	t.Helper()
	return loadsoothing.V1().Bind(
		plugintest.Serve(t, lsv1.Register(name, func(context.Context, *framework.Setup) (lsv1.LoadSoothing, error) {
			return written, nil
		}, framework.WithConfig(map[string]any{}))), name)
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	loadsoothingv1.UnimplementedLoadSoothingServiceServer
	answer *loadsoothingv1.AdmitResponse
}

func (r raw) Admit(context.Context, *loadsoothingv1.AdmitRequest) (*loadsoothingv1.AdmitResponse, error) {
	return r.answer, nil
}

func (r raw) hub(t *testing.T) loadsoothing.Policy {
	t.Helper()
	return loadsoothing.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		loadsoothingv1.RegisterLoadSoothingServiceServer(server, r)
	}), name)
}

func request() *loadsoothing.Request {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return &loadsoothing.Request{Config: []byte(`{"perNode":1}`), Input: loadsoothing.Input{Now: now, Limit: 4,
		Load: loadsoothing.Load{
			Kind: "DataUpload", Name: "nightly-x", Node: "n1", Created: now.Add(-time.Minute), Ahead: 2,
			StorageClass: "fast", Namespace: "shop", Bytes: 5 << 40, Owner: "nightly",
		},
		Counts: []loadsoothing.Count{
			{Kind: "DataUpload", Node: "n1", Accepted: 1, Prepared: 2, StorageClass: "fast", Namespace: "shop", Owner: "nightly",
				Bytes: 7},
			{Kind: "PodVolumeRestore", Prepared: 1},
		},
	}}
}

func TestPolicySeesLoadAndCounts(t *testing.T) {
	t.Parallel()
	seen := make(chan *lsv1.AdmitInput, 1)
	_, err := author(t, func(request *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
		seen <- request
		return nil, errors.New("seen")
	}).Admit(t.Context(), request())
	require.EqualError(t, err, "LoadSoothing(example.io/limit): seen")
	got, sent := <-seen, request()
	require.Equal(t, &lsv1.AdmitInput{
		Now: sent.Now, Limit: 4,
		Load: lsv1.Load{
			Kind: "DataUpload", Name: "nightly-x", Node: "n1", Created: sent.Load.Created, Ahead: 2,
			StorageClass: "fast", Namespace: "shop", Bytes: 5 << 40, Owner: "nightly",
		},
		Counts: []lsv1.Count{
			{Kind: "DataUpload", Node: "n1", Accepted: 1, Prepared: 2, StorageClass: "fast", Namespace: "shop", Owner: "nightly",
				Bytes: 7},
			{Kind: "PodVolumeRestore", Prepared: 1},
		},
	}, got)
	require.Equal(t, 4, got.Preparing())
}

func TestLoadIsAdmittedOrGetsReason(t *testing.T) {
	t.Parallel()
	limit := author(t, func(request *lsv1.AdmitInput) (*lsv1.AdmitOutput, error) {
		if request.Preparing() < request.Limit {
			return &lsv1.AdmitOutput{Admitted: true, Reason: "not looked at", RetryAfter: 48 * time.Hour}, nil
		}
		return &lsv1.AdmitOutput{Reason: fmt.Sprintf("%d loads are preparing", request.Preparing()), RetryAfter: time.Minute},
			nil
	})
	decision, err := limit.Admit(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, &loadsoothing.Decision{Reason: "4 loads are preparing", RetryAfter: time.Minute}, decision)

	fewer := request()
	fewer.Counts = nil
	decision, err = limit.Admit(t.Context(), fewer)
	require.NoError(t, err)
	require.Equal(t, &loadsoothing.Decision{Admitted: true}, decision)
}

func TestNoDecisionIsAnError(t *testing.T) {
	t.Parallel()
	_, err := author(t, func(*lsv1.AdmitInput) (*lsv1.AdmitOutput, error) { return nil, nil }).Admit(t.Context(),
		request())
	require.ErrorContains(t, err, "neither a decision nor an error")
}

func TestInvalidDecisionsAreRejected(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]*loadsoothingv1.AdmitResponse{
		"reason is empty":                          {},
		"retry_after is 2h0m0s, want at most 1h0m": {Reason: "r", RetryAfter: durationpb.New(2 * time.Hour)},
		"retry_after is -1s":                       {Reason: "r", RetryAfter: durationpb.New(-time.Second)},
	} {
		decision, err := raw{answer: answer}.hub(t).Admit(t.Context(), request())
		require.Nil(t, decision)
		require.ErrorIs(t, err, versioning.ErrInvalidReply)
		require.ErrorContains(t, err, "LoadSoothing(example.io/limit): invalid reply: "+want)
	}
}
