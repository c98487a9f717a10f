package v2

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[RestoreItemAction] {
	return hostapi.Kind[RestoreItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "RestoreItemActionV2", Probe: restoreitemactionv2.RestoreItemAction_AppliesTo_FullMethodName,
			Listed: 6, Operations: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[RestoreItemAction]) {
	restoreitemactionv2.RegisterRestoreItemActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	restoreitemactionv2.UnimplementedRestoreItemActionServer
	handlers *glue.Handlers[RestoreItemAction]
	restores wire.Decoded[velerov1.Restore, *velerov1.Restore]
}

func (s *server) AppliesTo(
	ctx context.Context, req *restoreitemactionv2.RestoreItemActionAppliesToRequest,
) (*restoreitemactionv2.RestoreItemActionAppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &restoreitemactionv2.RestoreItemActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Execute(
	ctx context.Context, req *restoreitemactionv2.RestoreItemActionExecuteRequest,
) (*restoreitemactionv2.RestoreItemActionExecuteResponse, error) {
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
	return &restoreitemactionv2.RestoreItemActionExecuteResponse{
		Item:                        updated,
		AdditionalItems:             wire.Identifiers(output.AdditionalItems),
		SkipRestore:                 output.SkipRestore,
		OperationID:                 output.OperationID,
		WaitForAdditionalItems:      output.WaitForAdditionalItems,
		AdditionalItemsReadyTimeout: wire.Timeout(output.AdditionalItemsReadyTimeout),
	}, nil
}

func (s *server) input(req *restoreitemactionv2.RestoreItemActionExecuteRequest) (*ExecuteInput, error) {
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

func (s *server) Progress(
	ctx context.Context, req *restoreitemactionv2.RestoreItemActionProgressRequest,
) (*restoreitemactionv2.RestoreItemActionProgressResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	progress, err := action.Handler.Progress(ctx, &ProgressInput{OperationID: req.GetOperationID(), Restore: restore})
	if err != nil {
		return nil, err
	}
	return &restoreitemactionv2.RestoreItemActionProgressResponse{Progress: wire.Progress(progress)}, nil
}

func (s *server) Cancel(
	ctx context.Context, req *restoreitemactionv2.RestoreItemActionCancelRequest,
) (*emptypb.Empty, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	err = action.Handler.Cancel(ctx, &CancelInput{OperationID: req.GetOperationID(), Restore: restore})
	if err != nil && !errors.Is(err, framework.ErrCannotCancel) { // which this wire cannot express
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func (s *server) AreAdditionalItemsReady(
	ctx context.Context, req *restoreitemactionv2.RestoreItemActionItemsReadyRequest,
) (*restoreitemactionv2.RestoreItemActionItemsReadyResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	output, err := action.Handler.AreAdditionalItemsReady(ctx, &AreAdditionalItemsReadyInput{
		AdditionalItems: wire.Received(req.GetAdditionalItems()), Restore: restore,
	})
	if err != nil {
		return nil, err
	}
	return &restoreitemactionv2.RestoreItemActionItemsReadyResponse{Ready: output != nil && output.Ready}, nil
}
