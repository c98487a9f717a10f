package backupitemaction_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
)

// copier is an author's asynchronous action.
type copier struct {
	start    func(*abiav1.StartInput) (*abiav1.StartOutput, error)
	progress framework.OperationProgress
	cancel   func(operationID, backup string) (bool, error)
}

func (copier) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (c copier) Start(_ context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	return c.start(input)
}

func (c copier) Progress(_ context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	switch input.OperationID {
	case "":
		return framework.OperationProgress{}, errors.New("asked after nothing")
	case "broken":
		panic("broken")
	}
	progress := c.progress
	progress.Description += " " + input.OperationID + " of " + input.Backup.Name
	return progress, nil
}

func (c copier) Cancel(_ context.Context, input *abiav1.CancelInput) error {
	stopping, err := c.cancel(input.OperationID, input.Backup.Name)
	if err == nil && !stopping {
		return framework.ErrCannotCancel
	}
	return err
}

// authorAsync returns the hub over an author's implementation.
func authorAsync(t *testing.T, written copier) backupitemaction.Action {
	t.Helper()
	return backupitemaction.AsyncV1().Bind(
		plugintest.Serve(t, abiav1.Register(name, func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction,
			error) {
			return written, nil
		})), name)
}

// rawAsync is a plugin whose replies the framework would never send.
type rawAsync struct {
	asyncbackupitemactionv1.UnimplementedAsyncBackupItemActionServiceServer
	appliesTo *asyncbackupitemactionv1.AppliesToResponse
	start     *asyncbackupitemactionv1.StartResponse
	progress  *asyncbackupitemactionv1.ProgressResponse
}

func (r rawAsync) AppliesTo(
	context.Context, *asyncbackupitemactionv1.AppliesToRequest,
) (*asyncbackupitemactionv1.AppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r rawAsync) Start(
	context.Context, *asyncbackupitemactionv1.StartRequest,
) (*asyncbackupitemactionv1.StartResponse, error) {
	return r.start, nil
}

func (r rawAsync) Progress(
	context.Context, *asyncbackupitemactionv1.ProgressRequest,
) (*asyncbackupitemactionv1.ProgressResponse, error) {
	return r.progress, nil
}

func (r rawAsync) hub(t *testing.T) backupitemaction.Action {
	t.Helper()
	return backupitemaction.AsyncV1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		asyncbackupitemactionv1.RegisterAsyncBackupItemActionServiceServer(server, r)
	}), name)
}

func TestExecuteStartsAsynchronousAction(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	action := authorAsync(t, copier{
		start: func(input *abiav1.StartInput) (*abiav1.StartOutput, error) {
			input.Item.SetLabels(map[string]string{"by": input.Backup.Name})
			return abiav1.NewStartOutput(input.Item).WithOperation(input.Key,
				framework.ResourceIdentifier{Resource: "configmaps", Namespace: "shop", Name: "result"}).
				WithItems(framework.ResourceIdentifier{Resource: "secrets", Namespace: "shop", Name: "key"}), nil
		},
		progress: framework.OperationProgress{
			Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "copying",
			LastLines: "write: no space\n",
			Started:   at, Updated: at.Add(time.Second),
		},
		cancel: func(operationID, backup string) (bool, error) {
			if operationID != "copy-1" || backup != "nightly" {
				return false, errors.New("cancelled " + operationID + " of " + backup)
			}
			return true, nil
		},
	})
	require.Equal(t, name, action.Name())
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"persistentvolumeclaims"}, selector.IncludedResources)

	result, err := action.Execute(t.Context(), []byte(item), []byte(`{"metadata":{"name":"nightly","uid":"u-1"}}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","labels":{"by":"nightly"}},"extra":12345678901234567}`, string(result.Item))
	require.Contains(t, string(result.Item), "12345678901234567", "a number keeps all its digits")
	require.Equal(t, "u-1/Pod/shop/web", result.OperationID, "the key arrives, and the operation's id comes back")
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "shop", Name: "key"}},
		result.AdditionalItems)
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: "shop", Name: "result"}},
		result.PostOperationItems)

	progress, err := action.Progress(t.Context(), "copy-1", []byte(backup))
	require.NoError(t, err)
	require.Equal(t, framework.OperationProgress{
		Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "copying copy-1 of nightly",
		LastLines: "write: no space",
		Started:   at, Updated: at.Add(time.Second),
	}, progress)
	require.NoError(t, action.Cancel(t.Context(), "copy-1", []byte(backup)))
}

func TestAsynchronousActionMayHaveNothingToStart(t *testing.T) {
	t.Parallel()
	for _, output := range []*abiav1.StartOutput{nil, {}, abiav1.NewStartOutput(nil).WithOperation("")} {
		action := authorAsync(t, copier{start: func(*abiav1.StartInput) (*abiav1.StartOutput, error) { return output, nil }})
		result, err := action.Execute(t.Context(), []byte(item), []byte(backup))
		require.NoError(t, err)
		require.Equal(t, &backupitemaction.Result{Item: []byte(item)}, result)
	}
}

func TestOperationThatCannotBeStoppedIsDistinguished(t *testing.T) {
	t.Parallel()
	action := authorAsync(t, copier{cancel: func(string, string) (bool, error) { return false, nil }})
	err := action.Cancel(t.Context(), "copy-1", []byte(backup))
	require.ErrorIs(t, err, versioning.ErrNotCancelled)
	require.EqualError(t, err, "AsyncBackupItemAction(example.io/stamp): the plugin cannot stop this operation")

	failing := authorAsync(t,
		copier{cancel: func(string, string) (bool, error) { return true, errors.New("no connection") }})
	err = failing.Cancel(t.Context(), "copy-1", []byte(backup))
	require.EqualError(t, err, "AsyncBackupItemAction(example.io/stamp): no connection")
	require.NotErrorIs(t, err, versioning.ErrNotCancelled)
}

func TestAsynchronousActionErrorsArePrefixedOnce(t *testing.T) {
	t.Parallel()
	action := authorAsync(t,
		copier{start: func(*abiav1.StartInput) (*abiav1.StartOutput, error) { return nil, errors.New("disk full") }})
	_, err := action.Execute(t.Context(), []byte(item), []byte(backup))
	require.EqualError(t, err, "AsyncBackupItemAction(example.io/stamp): disk full")
	_, err = action.Progress(t.Context(), "", []byte(backup))
	require.EqualError(t, err, "AsyncBackupItemAction(example.io/stamp): asked after nothing")
	_, err = action.Execute(t.Context(), []byte("garbage"), []byte(backup))
	require.ErrorContains(t, err, "AsyncBackupItemAction(example.io/stamp): the item sent to the action is not JSON")
	_, err = action.Progress(t.Context(), "copy-1", []byte("garbage"))
	require.ErrorContains(t, err, "decode backup of the request: ")
}

func TestInvalidRepliesOfAsynchronousActionsAreRejected(t *testing.T) {
	t.Parallel()
	nameless := []*shared.ResourceIdentifier{{Resource: "pods"}}
	for name, test := range map[string]struct {
		answer *asyncbackupitemactionv1.StartResponse
		want   string
	}{
		"nothing": {&asyncbackupitemactionv1.StartResponse{}, "item is empty"},
		"another name": {&asyncbackupitemactionv1.StartResponse{
			Item: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db"}}`),
		}, `item has name "db", want "web"`},
		"an additional item without a name": {&asyncbackupitemactionv1.StartResponse{Item: []byte(item),
			AdditionalItems: nameless}, "additionalItems[0]"},
		"a post-operation item without a name": {&asyncbackupitemactionv1.StartResponse{Item: []byte(item),
			PostOperationItems: nameless}, "postOperationItems[0]"},
		"an operation id nobody can show": {&asyncbackupitemactionv1.StartResponse{Item: []byte(item),
			OperationId: "a\nb"}, "operation id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := rawAsync{start: test.answer}.hub(t).Execute(t.Context(), []byte(item), []byte(backup))
			require.Nil(t, result)
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "AsyncBackupItemAction(example.io/stamp): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := rawAsync{progress: &asyncbackupitemactionv1.ProgressResponse{}}.hub(t).Progress(t.Context(), "copy-1", nil)
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	_, err = rawAsync{appliesTo: &asyncbackupitemactionv1.AppliesToResponse{
		ResourceSelector: &shared.ResourceSelector{Selector: "("},
	}}.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
}

func TestProgressOfManyLeavesOutWhatFails(t *testing.T) {
	t.Parallel()
	action := authorAsync(t,
		copier{progress: framework.OperationProgress{NCompleted: 3, Description: "copying", LastLines: "block 7"}})
	require.Equal(t, 64, action.AtOnce())
	owner := []byte(`{"metadata":{"name":"nightly"}}`)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // slow ones are left out as well
		answers, err := action.ProgressOfMany(t.Context(), []string{"copy-1", "", "broken", "copy-2"}, owner)
		require.NoError(c, err)
		require.Equal(c, map[string]framework.OperationProgress{
			"copy-1": {NCompleted: 3, Description: "copying copy-1 of nightly", LastLines: "block 7"},
			"copy-2": {NCompleted: 3, Description: "copying copy-2 of nightly", LastLines: "block 7"},
		}, answers)
	}, 5*time.Minute, time.Millisecond)
	_, err := action.Progress(t.Context(), "broken", owner)
	require.ErrorContains(t, err, "plugin panicked: broken")
	_, err = action.ProgressOfMany(t.Context(), make([]string, action.AtOnce()+1), owner)
	require.ErrorIs(t, err, versioning.ErrInvalid)
	require.Equal(t, 64, action.AtOnce())
}

func TestLastLinesAreCut(t *testing.T) {
	t.Parallel()
	action := rawAsync{progress: &asyncbackupitemactionv1.ProgressResponse{
		Progress: &shared.OperationProgress{}, LastLines: strings.Repeat("line\r\n", 1<<16),
	}}.hub(t)
	progress, err := action.Progress(t.Context(), "copy-1", nil)
	require.NoError(t, err)
	require.Equal(t, "..."+strings.Repeat("\nline", 20), progress.LastLines)
}

func TestProgressOfManyIsOptional(t *testing.T) {
	t.Parallel()
	action := rawAsync{progress: &asyncbackupitemactionv1.ProgressResponse{
		Progress: &shared.OperationProgress{NCompleted: 1},
	}}.hub(t)
	require.Equal(t, 64, action.AtOnce())
	_, err := action.ProgressOfMany(t.Context(), []string{"copy-1", "copy-2"}, []byte("{}"))
	require.ErrorContains(t, err, "AsyncBackupItemAction(example.io/")
	require.Zero(t, action.AtOnce())
	progress, err := action.Progress(t.Context(), "copy-1", []byte("{}"))
	require.NoError(t, err)
	require.EqualValues(t, 1, progress.NCompleted)
}
