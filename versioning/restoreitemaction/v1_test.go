package restoreitemaction_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	restoreitemactionv1 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

const name = "example.io/unstamp"

func input() restoreitemaction.Input {
	return restoreitemaction.Input{
		Item:           []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"new","name":"web"}}`),
		ItemFromBackup: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"old","name":"web","uid":"u"}}`),
		Restore:        []byte(`{"metadata":{"name":"monday"},"spec":{"backupName":"nightly"}}`),
	}
}

// unstamp is an author's action. The calls of the kind with all their fields are in TestAcceptBackup_WireGolden.
type unstamp func(*riav1.ExecuteInput) (*riav1.ExecuteOutput, error)

func (unstamp) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedNamespaces: []string{"new"}}, nil
}

func (u unstamp) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	return u(input)
}

// author returns the hub over an author's implementation.
func author(t *testing.T, written unstamp) restoreitemaction.Action {
	t.Helper()
	return restoreitemaction.V1().Bind(
		plugintest.Serve(t, riav1.Register(name, func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return written, nil
		})), name)
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	restoreitemactionv1.UnimplementedRestoreItemActionServer
	answer *restoreitemactionv1.RestoreItemActionExecuteResponse
}

func (r raw) Execute(
	context.Context, *restoreitemactionv1.RestoreItemActionExecuteRequest,
) (*restoreitemactionv1.RestoreItemActionExecuteResponse, error) {
	return r.answer, nil
}

func (r raw) hub(t *testing.T) restoreitemaction.Action {
	t.Helper()
	return restoreitemaction.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		restoreitemactionv1.RegisterRestoreItemActionServer(server, r)
	}), name)
}

func TestActionWithoutChangeReturnsSameBytes(t *testing.T) {
	t.Parallel()
	for _, output := range []*riav1.ExecuteOutput{nil, {}} {
		result, err := author(t, func(*riav1.ExecuteInput) (*riav1.ExecuteOutput, error) { return output, nil }).Execute(
			t.Context(), input(),
		)
		require.NoError(t, err)
		require.Equal(t, string(input().Item), string(result.Item))
	}
}

func TestSkippedItemIsNotChecked(t *testing.T) {
	t.Parallel()
	action := author(t, func(input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
		return riav1.NewExecuteOutput(input.Item).WithItems(framework.ResourceIdentifier{Resource: "secrets",
			Name: "s"}).WithoutRestore(), nil
	})
	result, err := action.Execute(t.Context(), input())
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{SkipRestore: true}, result)

	result, err = raw{answer: &restoreitemactionv1.RestoreItemActionExecuteResponse{Item: []byte("garbage"),
		SkipRestore: true}}.hub(t).Execute(t.Context(), input())
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{SkipRestore: true}, result)
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer *restoreitemactionv1.RestoreItemActionExecuteResponse
		want   string
	}{
		"nothing": {&restoreitemactionv1.RestoreItemActionExecuteResponse{}, "item is empty"},
		"garbage": {&restoreitemactionv1.RestoreItemActionExecuteResponse{Item: []byte("garbage")}, "item is not JSON"},
		"an additional item without a name": {
			&restoreitemactionv1.RestoreItemActionExecuteResponse{Item: input().Item,
				AdditionalItems: []*shared.ResourceIdentifier{{Resource: "pods"}}},
			"additionalItems[0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := raw{answer: test.answer}.hub(t).Execute(t.Context(), input())
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "RestoreItemAction(example.io/unstamp): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestActionErrorIsPrefixedOnce(t *testing.T) {
	t.Parallel()
	action := author(t, func(*riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
		return nil, framework.Errorf("disk full")
	})
	_, err := action.Execute(t.Context(), input())
	require.EqualError(t, err, "RestoreItemAction(example.io/unstamp): disk full")
}

func TestUndecodableVolumeIsAnErrorThatNamesTheField(t *testing.T) {
	t.Parallel()
	action := author(t, func(*riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
		return nil, framework.Errorf("never called")
	})
	broken := input()
	broken.ItemFromBackup = []byte(`{"apiVersion":"v1"}`)
	_, err := action.Execute(t.Context(), broken)
	require.ErrorContains(t, err, "decode itemFromBackup of the request: ")
}

func TestVersion1HasNoOperationsAndNothingToWaitFor(t *testing.T) {
	t.Parallel()
	action := raw{}.hub(t)
	_, err := action.Progress(t.Context(), "op", nil)
	require.ErrorIs(t, err, versioning.ErrNoOperations)
	require.NoError(t, action.Cancel(t.Context(), "op", nil))
	ready, err := action.AreAdditionalItemsReady(t.Context(), nil, nil)
	require.NoError(t, err)
	require.True(t, ready)
}
