package backupitemaction_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/rawitem"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
)

const (
	name   = "example.io/stamp"
	item   = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"},"extra":12345678901234567}`
	backup = `{"metadata":{"name":"nightly"},"spec":{"includedNamespaces":["shop"]}}`
)

// stamp is an author's action. The calls of the kind with all their fields are in TestAcceptBackup_WireGolden.
type stamp struct {
	biav1.BackupItemAction
	execute func(context.Context, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error)
}

func (s stamp) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return s.execute(ctx, input)
}

// author returns the hub over an author's implementation.
func author(t *testing.T, written stamp) backupitemaction.Action {
	t.Helper()
	return backupitemaction.V1().Bind(
		plugintest.Serve(t, biav1.Register(name, func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return written, nil
		})), name)
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	backupitemactionv1.UnimplementedBackupItemActionServer
	appliesTo *backupitemactionv1.BackupItemActionAppliesToResponse
	execute   *backupitemactionv1.ExecuteResponse
}

func (r raw) AppliesTo(
	context.Context, *backupitemactionv1.BackupItemActionAppliesToRequest,
) (*backupitemactionv1.BackupItemActionAppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r raw) Execute(context.Context, *backupitemactionv1.ExecuteRequest) (*backupitemactionv1.ExecuteResponse, error) {
	return r.execute, nil
}

func (r raw) hub(t *testing.T) backupitemaction.Action {
	t.Helper()
	return backupitemaction.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		backupitemactionv1.RegisterBackupItemActionServer(server, r)
	}), name)
}

func TestActionWithoutChangeReturnsSameBytes(t *testing.T) {
	t.Parallel()
	for _, output := range []*biav1.ExecuteOutput{nil, {}} {
		action := author(t, stamp{execute: func(context.Context, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
			return output, nil
		}})
		odd := ` {"metadata":{"name":"web"}, "kind":"Pod", "apiVersion":"v1" } `
		result, err := action.Execute(t.Context(), []byte(odd), []byte(backup))
		require.NoError(t, err)
		require.Equal(t, odd, string(result.Item))
	}
}

func TestActionErrorIsPrefixedOnceAndHasPosition(t *testing.T) {
	t.Parallel()
	action := author(t, stamp{execute: func(context.Context, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
		return nil, framework.Errorf("disk full")
	}})
	_, err := action.Execute(t.Context(), []byte(item), []byte(backup))
	require.EqualError(t, err, "BackupItemAction(example.io/stamp): disk full")
	var failed *versioning.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.File(), "v1_test.go")
	require.Positive(t, failed.Line())
	require.Contains(t, failed.Function(), "TestActionErrorIsPrefixedOnceAndHasPosition")
}

func TestCancellingReachesTheAction(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan error, 1)
	action := author(t, stamp{execute: func(ctx context.Context, _ *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	_, err := action.Execute(ctx, []byte(item), []byte(backup))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-left, context.Canceled)
}

func TestDeadlineIsDistinguished(t *testing.T) {
	t.Parallel()
	action := author(t, stamp{execute: func(ctx context.Context, _ *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	_, err := action.Execute(ctx, []byte(item), []byte(backup))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer *backupitemactionv1.ExecuteResponse
		want   string
	}{
		"nothing": {&backupitemactionv1.ExecuteResponse{}, "item is empty"},
		"garbage": {&backupitemactionv1.ExecuteResponse{Item: []byte("garbage")}, "item is not JSON"},
		"another name": {&backupitemactionv1.ExecuteResponse{
			Item: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db"}}`),
		}, `item has name "db", want "web"`},
		"an additional item without a name": {
			&backupitemactionv1.ExecuteResponse{Item: []byte(item),
				AdditionalItems: []*shared.ResourceIdentifier{{Resource: "pods"}}},
			"additionalItems[0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := raw{execute: test.answer}.hub(t).Execute(t.Context(), []byte(item), []byte(backup))
			require.Nil(t, result)
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.ErrorContains(t, err, "BackupItemAction(example.io/stamp): invalid reply: ")
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestSelectorMustParseAndNoneSelectsAll(t *testing.T) {
	t.Parallel()
	bad := raw{appliesTo: &backupitemactionv1.BackupItemActionAppliesToResponse{
		ResourceSelector: &shared.ResourceSelector{Selector: "("},
	}}
	_, err := bad.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	none := raw{appliesTo: &backupitemactionv1.BackupItemActionAppliesToResponse{}}
	selector, err := none.hub(t).AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{}, selector)
}

func TestVersion1HasNoOperations(t *testing.T) {
	t.Parallel()
	action := raw{}.hub(t)
	_, err := action.Progress(t.Context(), "op", []byte(backup))
	require.ErrorIs(t, err, versioning.ErrNoOperations)
	require.NoError(t, action.Cancel(t.Context(), "op", []byte(backup)))
}

func TestPluginWithoutTheKindIsAnError(t *testing.T) {
	t.Parallel()
	conn := plugintest.ServeRaw(t, nil, func(*grpc.Server) {})
	_, err := backupitemaction.V1().Bind(conn, name).AppliesTo(t.Context())
	require.ErrorContains(t, err, "unknown service generated.BackupItemAction")
	var failed *versioning.Error
	require.True(t, errors.As(err, &failed))
	require.Equal(t, name, failed.Plugin)
}

// rawStamp gets its items as JSON and sets a label on them.
type rawStamp struct{ biav1.BackupItemAction }

func (rawStamp) ExecuteRaw(_ context.Context, input *biav1.ExecuteRawInput) (*biav1.ExecuteRawOutput, error) {
	labelled, err := rawitem.SetLabel(input.Item, "seen", "true")
	return &biav1.ExecuteRawOutput{UpdatedItem: labelled}, err
}

func TestV1ActionMayTakeItsItemsRaw(t *testing.T) {
	t.Parallel()
	action := backupitemaction.V1().Bind(
		plugintest.Serve(t, biav1.Register(name, func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return rawStamp{}, nil
		})), name)
	got, err := action.Execute(t.Context(), []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`),
		[]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"seen":"true"},"name":"a"}}`, string(got.Item))
	_, err = action.Execute(t.Context(), []byte(`{"kind":"Pod"}`), []byte(`{}`))
	require.ErrorContains(t, err, "item has no metadata")
}
