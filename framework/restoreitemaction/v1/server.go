package v1

import (
	"context"

	"google.golang.org/grpc"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	restoreitemactionv1 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[RestoreItemAction] {
	return hostapi.Kind[RestoreItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "RestoreItemAction", Probe: restoreitemactionv1.RestoreItemAction_AppliesTo_FullMethodName,
			Listed: 5,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[RestoreItemAction]) {
	restoreitemactionv1.RegisterRestoreItemActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	restoreitemactionv1.UnimplementedRestoreItemActionServer
	handlers *glue.Handlers[RestoreItemAction]
	restores wire.Decoded[velerov1.Restore, *velerov1.Restore]
}

func (s *server) AppliesTo(
	ctx context.Context, req *restoreitemactionv1.RestoreItemActionAppliesToRequest,
) (*restoreitemactionv1.RestoreItemActionAppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &restoreitemactionv1.RestoreItemActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Execute(
	ctx context.Context, req *restoreitemactionv1.RestoreItemActionExecuteRequest,
) (*restoreitemactionv1.RestoreItemActionExecuteResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	input, err := s.input(req)
	if err != nil {
		return nil, err
	}
	output, err := action.Handler.Execute(ctx, input)
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &ExecuteOutput{}
	}
	updated, err := wire.EncodeUpdated(output.UpdatedItem, req.GetItem())
	if err != nil {
		return nil, err
	}
	return &restoreitemactionv1.RestoreItemActionExecuteResponse{
		Item:            updated,
		AdditionalItems: wire.Identifiers(output.AdditionalItems),
		SkipRestore:     output.SkipRestore,
	}, nil
}

func (s *server) input(req *restoreitemactionv1.RestoreItemActionExecuteRequest) (*ExecuteInput, error) {
	item, err := wire.DecodeItem("item", req.GetItem())
	if err != nil {
		return nil, err
	}
	fromBackup, err := wire.DecodeItem("itemFromBackup", req.GetItemFromBackup())
	if err != nil {
		return nil, err
	}
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	return &ExecuteInput{Item: item, ItemFromBackup: fromBackup, Restore: restore}, nil
}
