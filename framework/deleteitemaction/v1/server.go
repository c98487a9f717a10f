package v1

import (
	"context"

	"google.golang.org/grpc"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[DeleteItemAction] {
	return hostapi.Kind[DeleteItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "DeleteItemAction", Probe: deleteitemactionv1.DeleteItemAction_AppliesTo_FullMethodName,
			Listed: 7,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[DeleteItemAction]) {
	deleteitemactionv1.RegisterDeleteItemActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	deleteitemactionv1.UnimplementedDeleteItemActionServer
	handlers *glue.Handlers[DeleteItemAction]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) AppliesTo(
	ctx context.Context, req *deleteitemactionv1.DeleteItemActionAppliesToRequest,
) (*deleteitemactionv1.DeleteItemActionAppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &deleteitemactionv1.DeleteItemActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Execute(
	ctx context.Context, req *deleteitemactionv1.DeleteItemActionExecuteRequest,
) (*shared.Empty, error) {
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
	if err := action.Handler.Execute(ctx, &ExecuteInput{Item: item, Backup: backup}); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}
