package restoreitemaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	asyncrestoreitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// copier is an author's asynchronous action.
type copier struct {
	start    func(*ariav1.StartInput) (*ariav1.StartOutput, error)
	progress framework.OperationProgress
	cancel   func(operationID, restore string) (bool, error)
}

func (copier) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedNamespaces: []string{"new"}}, nil
}

func (c copier) Start(_ context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	return c.start(input)
}

func (c copier) Progress(_ context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	switch input.OperationID {
	case "":
		return framework.OperationProgress{}, errors.New("asked after nothing")
	case "broken":
		panic("broken")
	}
	progress := c.progress
	progress.Description += " " + input.OperationID + " of " + input.Restore.Name
	return progress, nil
}

func (c copier) Cancel(_ context.Context, input *ariav1.CancelInput) error {
	stopping, err := c.cancel(input.OperationID, input.Restore.Name)
	if err == nil && !stopping {
		return framework.ErrCannotCancel
	}
	return err
}

// authorAsync returns the hub over an author's implementation.
func authorAsync(t *testing.T, written copier) restoreitemaction.Action {
	t.Helper()
	return restoreitemaction.AsyncV1().Bind(
		plugintest.Serve(t, ariav1.Register(name, func(context.Context, *framework.Setup) (ariav1.AsyncRestoreItemAction,
			error) {
			return written, nil
		})), name)
}

// rawAsync is a plugin whose replies the framework would never send.
type rawAsync struct {
	asyncrestoreitemactionv1.UnimplementedAsyncRestoreItemActionServiceServer
	appliesTo *asyncrestoreitemactionv1.AppliesToResponse
	start     *asyncrestoreitemactionv1.StartResponse
	progress  *asyncrestoreitemactionv1.ProgressResponse
}

func (r rawAsync) AppliesTo(
	context.Context, *asyncrestoreitemactionv1.AppliesToRequest,
) (*asyncrestoreitemactionv1.AppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r rawAsync) Start(
	context.Context, *asyncrestoreitemactionv1.StartRequest,
) (*asyncrestoreitemactionv1.StartResponse, error) {
	return r.start, nil
}

func (r rawAsync) Progress(
	context.Context, *asyncrestoreitemactionv1.ProgressRequest,
) (*asyncrestoreitemactionv1.ProgressResponse, error) {
	return r.progress, nil
}

func (r rawAsync) hub(t *testing.T) restoreitemaction.Action {
	t.Helper()
	return restoreitemaction.AsyncV1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		asyncrestoreitemactionv1.RegisterAsyncRestoreItemActionServiceServer(server, r)
	}), name)
}

func TestExecuteStartsAsynchronousAction(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	action := authorAsync(t, copier{
		start: func(input *ariav1.StartInput) (*ariav1.StartOutput, error) {
			input.Item.SetLabels(map[string]string{"from": input.ItemFromBackup.GetNamespace(), "by": input.Restore.Name})
			return ariav1.NewStartOutput(input.Item).WithOperation(input.Key).
				WithItems(framework.ResourceIdentifier{Resource: "secrets", Namespace: "old", Name: "key"}), nil
		},
		progress: framework.OperationProgress{
			Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "copying",
			Started: at, Updated: at.Add(time.Second),
		},
		cancel: func(operationID, restore string) (bool, error) {
			if operationID != "copy-1" || restore != "monday" {
				return false, errors.New("cancelled " + operationID + " of " + restore)
			}
			return true, nil
		},
	})
	require.Equal(t, name, action.Name())
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, selector.IncludedNamespaces)

	result, err := action.Execute(t.Context(), input())
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"new","name":"web","labels":{"from":"old","by":"monday"}}}`, string(result.Item))
	require.Equal(t, "/monday/Pod/old/web", result.OperationID, "the key arrives, and the operation's id comes back")
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "old", Name: "key"}},
		result.AdditionalItems)
	require.False(t, result.WaitForAdditionalItems)

	progress, err := action.Progress(t.Context(), "copy-1", input().Restore)
	require.NoError(t, err)
	require.Equal(t, framework.OperationProgress{
		Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "copying copy-1 of monday",
		Started: at, Updated: at.Add(time.Second),
	}, progress)
	require.NoError(t, action.Cancel(t.Context(), "copy-1", input().Restore))
	ready, err := action.AreAdditionalItemsReady(t.Context(), result.AdditionalItems, input().Restore)
	require.NoError(t, err)
	require.True(t, ready)
}

func TestAsynchronousActionMayHaveNothingToStart(t *testing.T) {
	t.Parallel()
	for _, output := range []*ariav1.StartOutput{nil, {}, ariav1.NewStartOutput(nil).WithOperation("")} {
		action := authorAsync(t, copier{start: func(*ariav1.StartInput) (*ariav1.StartOutput, error) { return output, nil }})
		result, err := action.Execute(t.Context(), input())
		require.NoError(t, err)
		require.Equal(t, &restoreitemaction.Result{Item: input().Item}, result)
	}
}

func TestAsynchronousActionMayCreateItem(t *testing.T) {
	t.Parallel()
	result, err := authorAsync(t, copier{start: func(*ariav1.StartInput) (*ariav1.StartOutput, error) {
		return ariav1.NewStartOutput(nil).WithOperation("copy-1").WithoutRestore(), nil
	}}).Execute(t.Context(), input())
	require.NoError(t, err)
	require.Equal(t, &restoreitemaction.Result{SkipRestore: true, OperationID: "copy-1"}, result)
}

func TestOperationThatCannotBeStoppedIsDistinguished(t *testing.T) {
	t.Parallel()
	action := authorAsync(t, copier{cancel: func(string, string) (bool, error) { return false, nil }})
	err := action.Cancel(t.Context(), "copy-1", input().Restore)
	require.ErrorIs(t, err, versioning.ErrNotCancelled)
	require.EqualError(t, err, "AsyncRestoreItemAction(example.io/unstamp): the plugin cannot stop this operation")
}

func TestAsynchronousActionErrorsArePrefixedOnce(t *testing.T) {
	t.Parallel()
	action := authorAsync(t,
		copier{start: func(*ariav1.StartInput) (*ariav1.StartOutput, error) { return nil, errors.New("disk full") }})
	_, err := action.Execute(t.Context(), input())
	require.EqualError(t, err, "AsyncRestoreItemAction(example.io/unstamp): disk full")
	_, err = action.Progress(t.Context(), "", input().Restore)
	require.EqualError(t, err, "AsyncRestoreItemAction(example.io/unstamp): asked after nothing")
	broken := input()
	broken.ItemFromBackup = nil
	_, err = action.Execute(t.Context(), broken)
	require.ErrorContains(t, err, "AsyncRestoreItemAction(example.io/unstamp): the item sent to the action is empty")
	broken = input()
	broken.Item = []byte("garbage")
	_, err = action.Execute(t.Context(), broken)
	require.ErrorContains(t, err, "decode item of the request: ")
}

func TestInvalidRepliesOfAsynchronousActionsAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer *asyncrestoreitemactionv1.StartResponse
		want   string
	}{
		"nothing": {&asyncrestoreitemactionv1.StartResponse{}, "item is empty"},
		"an additional item without a name": {&asyncrestoreitemactionv1.StartResponse{Item: input().Item,
			AdditionalItems: []*shared.ResourceIdentifier{{Resource: "pods"}}}, "additionalItems[0]"},
		"an operation id nobody can show": {&asyncrestoreitemactionv1.StartResponse{SkipRestore: true, OperationId: "a\nb"},
			"operation id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := rawAsync{start: test.answer}.hub(t).Execute(t.Context(), input())
			require.Nil(t, result)
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "AsyncRestoreItemAction(example.io/unstamp): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := rawAsync{progress: &asyncrestoreitemactionv1.ProgressResponse{}}.hub(t).Progress(t.Context(), "copy-1", nil)
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	_, err = rawAsync{appliesTo: &asyncrestoreitemactionv1.AppliesToResponse{
		ResourceSelector: &shared.ResourceSelector{Selector: "("},
	}}.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
}

func TestProgressOfManyLeavesOutWhatFails(t *testing.T) {
	t.Parallel()
	action := authorAsync(t, copier{progress: framework.OperationProgress{NCompleted: 3, Description: "copying"}})
	require.Equal(t, 64, action.AtOnce())
	owner := []byte(`{"metadata":{"name":"nightly"}}`)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // slow ones are left out as well
		answers, err := action.ProgressOfMany(t.Context(), []string{"copy-1", "", "broken", "copy-2"}, owner)
		require.NoError(c, err)
		require.Equal(c, map[string]framework.OperationProgress{
			"copy-1": {NCompleted: 3, Description: "copying copy-1 of nightly"}, "copy-2": {NCompleted: 3,
				Description: "copying copy-2 of nightly"},
		}, answers)
	}, 5*time.Minute, time.Millisecond)
	_, err := action.Progress(t.Context(), "broken", owner)
	require.ErrorContains(t, err, "plugin panicked: broken")
	_, err = action.ProgressOfMany(t.Context(), make([]string, action.AtOnce()+1), owner)
	require.ErrorIs(t, err, versioning.ErrInvalid)
	require.Equal(t, 64, action.AtOnce())
}

func TestProgressOfManyIsOptional(t *testing.T) {
	t.Parallel()
	action := rawAsync{progress: &asyncrestoreitemactionv1.ProgressResponse{
		Progress: &shared.OperationProgress{NCompleted: 1},
	}}.hub(t)
	require.Equal(t, 64, action.AtOnce())
	_, err := action.ProgressOfMany(t.Context(), []string{"copy-1", "copy-2"}, []byte("{}"))
	require.ErrorContains(t, err, "AsyncRestoreItemAction(example.io/")
	require.Zero(t, action.AtOnce())
	progress, err := action.Progress(t.Context(), "copy-1", []byte("{}"))
	require.NoError(t, err)
	require.EqualValues(t, 1, progress.NCompleted)
}
