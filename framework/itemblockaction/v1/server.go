package v1

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
)

func bind(registrar grpc.ServiceRegistrar, handlers *framework.Handlers[ItemBlockAction]) {
	itemblockactionv1.RegisterItemBlockActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	itemblockactionv1.UnimplementedItemBlockActionServer
	handlers *framework.Handlers[ItemBlockAction]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) AppliesTo(ctx context.Context, req *itemblockactionv1.ItemBlockActionAppliesToRequest) (*itemblockactionv1.ItemBlockActionAppliesToResponse, error) {
	action, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	selector, err := action.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &itemblockactionv1.ItemBlockActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) GetRelatedItems(ctx context.Context, req *itemblockactionv1.ItemBlockActionGetRelatedItemsRequest) (*itemblockactionv1.ItemBlockActionGetRelatedItemsResponse, error) {
	action, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	item, err := wire.DecodeItem("item", req.GetItem())
	if err != nil {
		return nil, err
	}
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	related, err := action.GetRelatedItems(ctx, &GetRelatedItemsInput{Item: item, Backup: backup})
	if err != nil {
		return nil, err
	}
	return &itemblockactionv1.ItemBlockActionGetRelatedItemsResponse{RelatedItems: wire.Identifiers(related)}, nil
}
