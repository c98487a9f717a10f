package deleteitemaction_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
)

const (
	name   = "example.io/forget"
	item   = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`
	backup = `{"metadata":{"name":"nightly"}}`
)

// forget is an author's action, a function for its Execute. The calls of the kind with all their fields are in
// TestAcceptPlugins_WireGolden.
type forget func(*diav1.ExecuteInput) error

func (forget) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (f forget) Execute(_ context.Context, input *diav1.ExecuteInput) error { return f(input) }

// author returns the hub over an author's implementation.
func author(t *testing.T, written forget) deleteitemaction.Action {
	t.Helper()
	return deleteitemaction.V1().Bind(
		plugintest.Serve(t, diav1.Register(name, func(context.Context, *framework.Setup) (diav1.DeleteItemAction, error) {
			return written, nil
		})), name)
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	deleteitemactionv1.UnimplementedDeleteItemActionServer
	appliesTo *deleteitemactionv1.DeleteItemActionAppliesToResponse
}

func (r raw) AppliesTo(
	context.Context, *deleteitemactionv1.DeleteItemActionAppliesToRequest,
) (*deleteitemactionv1.DeleteItemActionAppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r raw) hub(t *testing.T) deleteitemaction.Action {
	t.Helper()
	return deleteitemaction.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		deleteitemactionv1.RegisterDeleteItemActionServer(server, r)
	}), name)
}

func TestActionErrorIsPrefixedOnceAndHasPosition(t *testing.T) {
	t.Parallel()
	action := author(t, func(*diav1.ExecuteInput) error { return framework.Errorf("disk locked") })
	err := action.Execute(t.Context(), []byte(item), []byte(backup))
	require.EqualError(t, err, "DeleteItemAction(example.io/forget): disk locked")
	var failed *versioning.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.File(), "v1_test.go")
}

func TestUndecodableVolumeIsAnErrorThatNamesTheField(t *testing.T) {
	t.Parallel()
	action := author(t, func(*diav1.ExecuteInput) error { return errors.New("never called") })
	require.ErrorContains(t, action.Execute(t.Context(), []byte(`{"apiVersion":"v1"}`), []byte(backup)),
		"decode item of the request: ")
	require.ErrorContains(t, action.Execute(t.Context(), []byte(item), []byte("garbage")),
		"decode backup of the request: ")
}

func TestSelectorMustParseAndNoneSelectsAll(t *testing.T) {
	t.Parallel()
	bad := raw{appliesTo: &deleteitemactionv1.DeleteItemActionAppliesToResponse{
		ResourceSelector: &shared.ResourceSelector{Selector: "("},
	}}
	_, err := bad.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	require.ErrorContains(t, err, "DeleteItemAction(example.io/forget): invalid reply: ")
	selector, err := raw{appliesTo: &deleteitemactionv1.DeleteItemActionAppliesToResponse{}}.hub(t).AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{}, selector)
}
