package restoreitemaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// mover is an author's action that makes the host wait. The calls of the kind with all their fields are in
// TestAcceptPlugins_WireGolden.
type mover struct {
	riav2.RestoreItemAction
	execute func(*riav2.ExecuteInput) (*riav2.ExecuteOutput, error)
	ready   func([]framework.ResourceIdentifier, *velerov1.Restore) (bool, error)
}

func (m mover) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	return m.execute(input)
}

func (mover) Progress(context.Context, *riav2.ProgressInput) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, errors.New("asked after nothing")
}

func (mover) Cancel(_ context.Context, input *riav2.CancelInput) error {
	return errors.New("cannot stop " + input.OperationID)
}

func (m mover) AreAdditionalItemsReady(
	_ context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	ready, err := m.ready(input.AdditionalItems, input.Restore)
	return &riav2.AreAdditionalItemsReadyOutput{Ready: ready}, err
}

// authorV2 returns the hub over an author's implementation.
func authorV2(t *testing.T, written mover) restoreitemaction.Action {
	t.Helper()
	return restoreitemaction.V2().Bind(
		plugintest.Serve(t, riav2.Register(name, func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
			return written, nil
		})), name)
}

// rawV2 is a plugin whose replies the framework would never send.
type rawV2 struct {
	restoreitemactionv2.UnimplementedRestoreItemActionServer
	appliesTo *restoreitemactionv2.RestoreItemActionAppliesToResponse
	execute   *restoreitemactionv2.RestoreItemActionExecuteResponse
	progress  *restoreitemactionv2.RestoreItemActionProgressResponse
}

func (r rawV2) AppliesTo(
	context.Context, *restoreitemactionv2.RestoreItemActionAppliesToRequest,
) (*restoreitemactionv2.RestoreItemActionAppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r rawV2) Execute(
	context.Context, *restoreitemactionv2.RestoreItemActionExecuteRequest,
) (*restoreitemactionv2.RestoreItemActionExecuteResponse, error) {
	return r.execute, nil
}

func (r rawV2) Progress(
	context.Context, *restoreitemactionv2.RestoreItemActionProgressRequest,
) (*restoreitemactionv2.RestoreItemActionProgressResponse, error) {
	return r.progress, nil
}

func (r rawV2) hub(t *testing.T) restoreitemaction.Action {
	t.Helper()
	return restoreitemaction.V2().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		restoreitemactionv2.RegisterRestoreItemActionServer(server, r)
	}), name)
}

func TestActionMakesHostWaitForAdditionalItems(t *testing.T) {
	t.Parallel()
	wanted := []framework.ResourceIdentifier{
		{Resource: "secrets", Namespace: "old", Name: "a"},
		{Group: "apps", Resource: "deployments", Namespace: "old", Name: "b"},
	}
	for name, test := range map[string]struct {
		output *riav2.ExecuteOutput
		want   restoreitemaction.Result
	}{
		"no wait": {riav2.NewExecuteOutput(nil).WithItems(wanted...), restoreitemaction.Result{}},
		"a wait": {riav2.NewExecuteOutput(nil).WithItems(wanted...).WithItemsWait(),
			restoreitemaction.Result{WaitForAdditionalItems: true}},
		"its own time": {riav2.NewExecuteOutput(nil).WithItems(wanted...).WithItemsWaitFor(90 * time.Second),
			restoreitemaction.Result{WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: 90 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := authorV2(t, mover{
				execute: func(*riav2.ExecuteInput) (*riav2.ExecuteOutput, error) { return test.output, nil },
				ready: func(items []framework.ResourceIdentifier, restore *velerov1.Restore) (bool, error) {
					if len(items) == 0 {
						return false, errors.New("nothing of it came back to " + restore.Name)
					}
					return len(items) == 1, nil
				},
			})
			result, err := action.Execute(t.Context(), input())
			require.NoError(t, err)
			test.want.Item, test.want.AdditionalItems = input().Item, wanted
			require.Equal(t, &test.want, result)

			ready, err := action.AreAdditionalItemsReady(t.Context(), result.AdditionalItems, input().Restore)
			require.NoError(t, err)
			require.False(t, ready)
			ready, err = action.AreAdditionalItemsReady(t.Context(), result.AdditionalItems[1:], input().Restore)
			require.NoError(t, err)
			require.True(t, ready)
			ready, err = action.AreAdditionalItemsReady(t.Context(), nil, input().Restore)
			require.EqualError(t, err, "RestoreItemAction(example.io/unstamp): nothing of it came back to monday")
			require.False(t, ready)
		})
	}
}

func TestV2ActionWithoutChangeReturnsSameBytes(t *testing.T) {
	t.Parallel()
	for _, output := range []*riav2.ExecuteOutput{nil, {}} {
		action := authorV2(t, mover{execute: func(*riav2.ExecuteInput) (*riav2.ExecuteOutput, error) { return output, nil }})
		result, err := action.Execute(t.Context(), input())
		require.NoError(t, err)
		require.Equal(t, &restoreitemaction.Result{Item: input().Item}, result)
	}
}

func TestSkippedItemKeepsOnlyItsOperation(t *testing.T) {
	t.Parallel()
	result, err := authorV2(t, mover{execute: func(input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
		return riav2.NewExecuteOutput(input.Item).WithItemsWait().WithOperation("copy-1").WithoutRestore(), nil
	}}).Execute(t.Context(), input())
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{SkipRestore: true, OperationID: "copy-1"}, result)

	result, err = rawV2{execute: &restoreitemactionv2.RestoreItemActionExecuteResponse{
		Item: []byte("garbage"), SkipRestore: true, AdditionalItemsReadyTimeout: durationpb.New(-1),
	}}.hub(t).Execute(t.Context(), input())
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{SkipRestore: true}, result)
}

func TestV2ErrorsArePrefixedOnce(t *testing.T) {
	t.Parallel()
	action := authorV2(t, mover{execute: func(*riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
		return nil, errors.New("disk full")
	}})
	_, err := action.Execute(t.Context(), input())
	require.EqualError(t, err, "RestoreItemAction(example.io/unstamp): disk full")
	_, err = action.Progress(t.Context(), "", input().Restore)
	require.EqualError(t, err, "RestoreItemAction(example.io/unstamp): asked after nothing")
	require.EqualError(t, action.Cancel(t.Context(), "copy-1", input().Restore),
		"RestoreItemAction(example.io/unstamp): cannot stop copy-1")
	_, err = action.AreAdditionalItemsReady(t.Context(), nil, []byte("garbage"))
	require.ErrorContains(t, err, "decode restore of the request: ")
}

func TestInvalidRepliesOfV2AreRejected(t *testing.T) {
	t.Parallel()
	fine := input().Item
	for name, test := range map[string]struct {
		answer *restoreitemactionv2.RestoreItemActionExecuteResponse
		want   string
	}{
		"nothing": {&restoreitemactionv2.RestoreItemActionExecuteResponse{}, "item is empty"},
		"an additional item without a name": {&restoreitemactionv2.RestoreItemActionExecuteResponse{Item: fine,
			AdditionalItems: []*shared.ResourceIdentifier{{Resource: "pods"}}}, "additionalItems[0]"},
		"an operation id nobody can show": {&restoreitemactionv2.RestoreItemActionExecuteResponse{Item: fine,
			OperationID: "a\nb"}, "operation id"},
		"an operation id of a skipped item": {&restoreitemactionv2.RestoreItemActionExecuteResponse{SkipRestore: true,
			OperationID: " "}, "operation id"},
		"a wait that is over before it began": {&restoreitemactionv2.RestoreItemActionExecuteResponse{Item: fine,
			WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: durationpb.New(-time.Second)},
			"additionalItemsReadyTimeout is -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := rawV2{execute: test.answer}.hub(t).Execute(t.Context(), input())
			require.Nil(t, result)
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "RestoreItemAction(example.io/unstamp): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := rawV2{progress: &restoreitemactionv2.RestoreItemActionProgressResponse{}}.hub(t).Progress(t.Context(),
		"copy-1", nil)
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	_, err = rawV2{appliesTo: &restoreitemactionv2.RestoreItemActionAppliesToResponse{
		ResourceSelector: &shared.ResourceSelector{Selector: "("},
	}}.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
}
