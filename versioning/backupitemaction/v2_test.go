package backupitemaction_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
)

// mover is an author's action. The calls of the kind with all their fields are in TestAcceptPlugins_WireGolden.
type mover struct {
	biav2.BackupItemAction
	execute func(*biav2.ExecuteInput) (*biav2.ExecuteOutput, error)
}

func (m mover) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	return m.execute(input)
}

func (mover) Progress(_ context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	if input.OperationID == "" {
		return framework.OperationProgress{}, errors.New("asked after nothing")
	}
	return framework.OperationProgress{Description: input.OperationID + " of " + input.Backup.Name}, nil
}

func (mover) Cancel(_ context.Context, input *biav2.CancelInput) error {
	return errors.New("cannot stop " + input.OperationID)
}

// authorV2 returns the hub over an author's implementation.
func authorV2(t *testing.T, written mover) backupitemaction.Action {
	t.Helper()
	return backupitemaction.V2().Bind(
		plugintest.Serve(t, biav2.Register(name, func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return written, nil
		})), name)
}

// rawV2 is a plugin whose replies the framework would never send.
type rawV2 struct {
	backupitemactionv2.UnimplementedBackupItemActionServer
	appliesTo *backupitemactionv2.BackupItemActionAppliesToResponse
	execute   *backupitemactionv2.ExecuteResponse
	progress  *backupitemactionv2.BackupItemActionProgressResponse
}

func (r rawV2) AppliesTo(
	context.Context, *backupitemactionv2.BackupItemActionAppliesToRequest,
) (*backupitemactionv2.BackupItemActionAppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r rawV2) Execute(
	context.Context, *backupitemactionv2.ExecuteRequest,
) (*backupitemactionv2.ExecuteResponse, error) {
	return r.execute, nil
}

func (r rawV2) Progress(
	context.Context, *backupitemactionv2.BackupItemActionProgressRequest,
) (*backupitemactionv2.BackupItemActionProgressResponse, error) {
	return r.progress, nil
}

func (rawV2) Cancel(context.Context, *backupitemactionv2.BackupItemActionCancelRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (r rawV2) hub(t *testing.T) backupitemaction.Action {
	t.Helper()
	return backupitemaction.V2().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		backupitemactionv2.RegisterBackupItemActionServer(server, r)
	}), name)
}

func TestV2ActionWithoutChangeReturnsSameBytes(t *testing.T) {
	t.Parallel()
	for _, output := range []*biav2.ExecuteOutput{nil, {}} {
		action := authorV2(t, mover{execute: func(*biav2.ExecuteInput) (*biav2.ExecuteOutput, error) { return output, nil }})
		result, err := action.Execute(t.Context(), []byte(item), []byte(backup))
		require.NoError(t, err)
		require.Equal(t, &backupitemaction.Result{Item: []byte(item)}, result)
	}
}

func TestUnknownProgressHasNoTimes(t *testing.T) {
	t.Parallel()
	progress, err := authorV2(t, mover{}).Progress(t.Context(), "copy-1", []byte(backup))
	require.NoError(t, err)
	require.Equal(t, framework.OperationProgress{Description: "copy-1 of nightly"}, progress)
}

func TestV2ErrorsArePrefixedOnce(t *testing.T) {
	t.Parallel()
	action := authorV2(t, mover{execute: func(*biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
		return nil, errors.New("disk full")
	}})
	_, err := action.Execute(t.Context(), []byte(item), []byte(backup))
	require.EqualError(t, err, "BackupItemAction(example.io/stamp): disk full")
	_, err = action.Progress(t.Context(), "", []byte(backup))
	require.EqualError(t, err, "BackupItemAction(example.io/stamp): asked after nothing")
	require.EqualError(t, action.Cancel(t.Context(), "copy-1", []byte(backup)),
		"BackupItemAction(example.io/stamp): cannot stop copy-1")
	_, err = action.Progress(t.Context(), "copy-1", []byte("garbage"))
	require.ErrorContains(t, err, "decode backup of the request: ")
}

func TestInvalidRepliesOfV2AreRejected(t *testing.T) {
	t.Parallel()
	nameless := []*shared.ResourceIdentifier{{Resource: "pods"}}
	for name, test := range map[string]struct {
		answer *backupitemactionv2.ExecuteResponse
		want   string
	}{
		"nothing": {&backupitemactionv2.ExecuteResponse{}, "item is empty"},
		"another name": {&backupitemactionv2.ExecuteResponse{
			Item: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db"}}`),
		}, `item has name "db", want "web"`},
		"an additional item without a name": {&backupitemactionv2.ExecuteResponse{Item: []byte(item),
			AdditionalItems: nameless}, "additionalItems[0]"},
		"a post-operation item without a name": {&backupitemactionv2.ExecuteResponse{Item: []byte(item),
			OperationID: "copy-1", PostOperationItems: nameless}, "postOperationItems[0]"},
		"an operation id that cannot be shown": {&backupitemactionv2.ExecuteResponse{Item: []byte(item),
			OperationID: "a\nb"}, "operation id"},
		"an operation id that cannot be stored": {&backupitemactionv2.ExecuteResponse{Item: []byte(item),
			OperationID: strings.Repeat("x", 2000)}, "operation id has 2000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := rawV2{execute: test.answer}.hub(t).Execute(t.Context(), []byte(item), []byte(backup))
			require.Nil(t, result)
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "BackupItemAction(example.io/stamp): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
	progress, err := rawV2{progress: &backupitemactionv2.BackupItemActionProgressResponse{}}.hub(t).Progress(t.Context(),
		"copy-1", nil)
	require.Zero(t, progress)
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	_, err = rawV2{appliesTo: &backupitemactionv2.BackupItemActionAppliesToResponse{
		ResourceSelector: &shared.ResourceSelector{Selector: "("},
	}}.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
}

// rawMover gets its items as JSON.
type rawMover struct {
	mover
	executeRaw func(item, backup string) (*biav2.ExecuteRawOutput, error)
}

func (m rawMover) ExecuteRaw(_ context.Context, input *biav2.ExecuteRawInput) (*biav2.ExecuteRawOutput, error) {
	return m.executeRaw(string(input.Item), string(input.Backup))
}

func TestV2ActionMayTakeItsItemsRaw(t *testing.T) {
	t.Parallel()
	const item, changed = `{"kind":"Pod", "apiVersion":"v1","metadata":{"name":"a"}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{}}}`
	also := []framework.ResourceIdentifier{{Resource: "pods", Namespace: "n", Name: "b"}}
	for about, test := range map[string]struct {
		output *biav2.ExecuteRawOutput
		err    error
		want   *backupitemaction.Result
	}{
		"nothing to say": {nil, nil, &backupitemaction.Result{Item: []byte(item)}},
		"as it came": {&biav2.ExecuteRawOutput{AdditionalItems: also}, nil,
			&backupitemaction.Result{Item: []byte(item), AdditionalItems: also}},
		"all of it": {
			&biav2.ExecuteRawOutput{UpdatedItem: []byte(changed), AdditionalItems: also, OperationID: "op",
				PostOperationItems: also}, nil,
			&backupitemaction.Result{Item: []byte(changed), AdditionalItems: also, OperationID: "op", PostOperationItems: also},
		},
		"an error": {nil, errors.New("no such volume"), nil},
		"another item": {&biav2.ExecuteRawOutput{
			UpdatedItem: []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b"}}`),
		}, nil, nil},
	} {
		var gotItem, gotBackup string
		action := backupitemaction.V2().Bind(
			plugintest.Serve(t, biav2.Register(name, func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
				return rawMover{executeRaw: func(item, backup string) (*biav2.ExecuteRawOutput, error) {
					gotItem, gotBackup = item, backup
					return test.output, test.err
				}}, nil
			})), name)
		got, err := action.Execute(t.Context(), []byte(item), []byte(`{"metadata":{"name":"b"}}`))
		require.Equal(t, item, gotItem, "to the byte")
		require.Equal(t, `{"metadata":{"name":"b"}}`, gotBackup)
		if test.want == nil {
			require.Error(t, err, about)
			continue
		}
		require.NoError(t, err, about)
		require.Equal(t, test.want, got, about)
	}
}
