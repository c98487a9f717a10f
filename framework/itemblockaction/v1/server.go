package v1

import (
	"context"

	"google.golang.org/grpc"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[ItemBlockAction] {
	return hostapi.Kind[ItemBlockAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "ItemBlockAction", Probe: itemblockactionv1.ItemBlockAction_AppliesTo_FullMethodName,
			Listed: 8,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[ItemBlockAction]) {
	itemblockactionv1.RegisterItemBlockActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	itemblockactionv1.UnimplementedItemBlockActionServer
	handlers *glue.Handlers[ItemBlockAction]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) AppliesTo(
	ctx context.Context, req *itemblockactionv1.ItemBlockActionAppliesToRequest,
) (*itemblockactionv1.ItemBlockActionAppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &itemblockactionv1.ItemBlockActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) GetRelatedItems(
	ctx context.Context, req *itemblockactionv1.ItemBlockActionGetRelatedItemsRequest,
) (*itemblockactionv1.ItemBlockActionGetRelatedItemsResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	item, err := wire.DecodeItem("item", req.GetItem())
	if err != nil {
		return nil, err
	}
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	output, err := action.Handler.GetRelatedItems(ctx, &GetRelatedItemsInput{Item: item, Backup: backup})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &GetRelatedItemsOutput{}
	}
	return &itemblockactionv1.ItemBlockActionGetRelatedItemsResponse{RelatedItems: wire.Identifiers(output.RelatedItems)},
		nil
}
