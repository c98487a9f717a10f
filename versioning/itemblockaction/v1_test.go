package itemblockaction_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
)

const (
	name   = "example.io/shards"
	item   = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`
	backup = `{"metadata":{"name":"nightly"}}`
)

// shards is an author's action, a function for its GetRelatedItems. The calls of the kind with all their fields are in
// TestAcceptPlugins_WireGolden.
type shards func(*ibav1.GetRelatedItemsInput) ([]framework.ResourceIdentifier, error)

func (shards) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (s shards) GetRelatedItems(
	_ context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	related, err := s(input)
	return &ibav1.GetRelatedItemsOutput{RelatedItems: related}, err
}

// author returns the hub over an author's implementation.
func author(t *testing.T, written shards) itemblockaction.Action {
	t.Helper()
	return itemblockaction.V1().Bind(
		plugintest.Serve(t, ibav1.Register(name, func(context.Context, *framework.Setup) (ibav1.ItemBlockAction, error) {
			return written, nil
		})), name)
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	itemblockactionv1.UnimplementedItemBlockActionServer
	appliesTo *itemblockactionv1.ItemBlockActionAppliesToResponse
	related   *itemblockactionv1.ItemBlockActionGetRelatedItemsResponse
}

func (r raw) AppliesTo(
	context.Context, *itemblockactionv1.ItemBlockActionAppliesToRequest,
) (*itemblockactionv1.ItemBlockActionAppliesToResponse, error) {
	return r.appliesTo, nil
}

func (r raw) GetRelatedItems(
	context.Context, *itemblockactionv1.ItemBlockActionGetRelatedItemsRequest,
) (*itemblockactionv1.ItemBlockActionGetRelatedItemsResponse, error) {
	return r.related, nil
}

func (r raw) hub(t *testing.T) itemblockaction.Action {
	t.Helper()
	return itemblockaction.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		itemblockactionv1.RegisterItemBlockActionServer(server, r)
	}), name)
}

func TestItemMayHaveNoRelatedItems(t *testing.T) {
	t.Parallel()
	related, err := author(t, func(*ibav1.GetRelatedItemsInput) ([]framework.ResourceIdentifier, error) {
		return nil, nil
	}).GetRelatedItems(t.Context(), []byte(item), []byte(backup))
	require.NoError(t, err)
	require.Empty(t, related)
}

func TestActionErrorIsPrefixedOnce(t *testing.T) {
	t.Parallel()
	action := author(t, func(*ibav1.GetRelatedItemsInput) ([]framework.ResourceIdentifier, error) {
		return nil, errors.New("no such cluster")
	})
	_, err := action.GetRelatedItems(t.Context(), []byte(item), []byte(backup))
	require.EqualError(t, err, "ItemBlockAction(example.io/shards): no such cluster")
	_, err = action.GetRelatedItems(t.Context(), []byte("garbage"), []byte(backup))
	require.ErrorContains(t, err, "decode item of the request: ")
	_, err = action.GetRelatedItems(t.Context(), []byte(item), []byte("garbage"))
	require.ErrorContains(t, err, "decode backup of the request: ")
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	t.Parallel()
	plugin := raw{
		appliesTo: &itemblockactionv1.ItemBlockActionAppliesToResponse{
			ResourceSelector: &shared.ResourceSelector{Selector: "("},
		},
		related: &itemblockactionv1.ItemBlockActionGetRelatedItemsResponse{
			RelatedItems: []*shared.ResourceIdentifier{{Resource: "pods", Name: "../a"}},
		},
	}
	_, err := plugin.hub(t).AppliesTo(t.Context())
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	related, err := plugin.hub(t).GetRelatedItems(t.Context(), []byte(item), []byte(backup))
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	require.ErrorContains(t, err, "ItemBlockAction(example.io/shards): invalid reply: relatedItems[0]: ")
	require.Nil(t, related)
}
