package v1

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/tail"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	asyncrestoreitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncrestoreitemaction/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[AsyncRestoreItemAction] {
	return hostapi.Kind[AsyncRestoreItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire:       "AsyncRestoreItemAction",
			Probe:      asyncrestoreitemactionv1.AsyncRestoreItemActionService_AppliesTo_FullMethodName,
			Operations: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[AsyncRestoreItemAction]) {
	asyncrestoreitemactionv1.RegisterAsyncRestoreItemActionServiceServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	asyncrestoreitemactionv1.UnimplementedAsyncRestoreItemActionServiceServer
	handlers *glue.Handlers[AsyncRestoreItemAction]
	restores wire.Decoded[velerov1.Restore, *velerov1.Restore]
}

func (s *server) AppliesTo(
	ctx context.Context, req *asyncrestoreitemactionv1.AppliesToRequest,
) (*asyncrestoreitemactionv1.AppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &asyncrestoreitemactionv1.AppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Start(
	ctx context.Context, req *asyncrestoreitemactionv1.StartRequest,
) (*asyncrestoreitemactionv1.StartResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	input, err := s.input(req)
	if err != nil {
		return nil, err
	}
	output, err := action.Handler.Start(ctx, input)
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &StartOutput{}
	}
	updated, err := wire.EncodeUpdated(output.UpdatedItem, req.GetItem())
	if err != nil {
		return nil, err
	}
	return &asyncrestoreitemactionv1.StartResponse{
		Item:            updated,
		OperationId:     output.OperationID,
		SkipRestore:     output.SkipRestore,
		AdditionalItems: wire.Identifiers(output.AdditionalItems),
	}, nil
}

func (s *server) input(req *asyncrestoreitemactionv1.StartRequest) (*StartInput, error) {
	item, err := wire.DecodeItem("item", req.GetItem())
	if err != nil {
		return nil, err
	}
	fromBackup, err := wire.DecodeItem("item_from_backup", req.GetItemFromBackup())
	if err != nil {
		return nil, err
	}
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	return &StartInput{Item: item, ItemFromBackup: fromBackup, Restore: restore, Key: req.GetKey()}, nil
}

func (s *server) Progress(
	ctx context.Context, req *asyncrestoreitemactionv1.ProgressRequest,
) (*asyncrestoreitemactionv1.ProgressResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	progress, err := action.Handler.Progress(ctx, &ProgressInput{OperationID: req.GetOperationId(), Restore: restore})
	if err != nil {
		return nil, err
	}
	return &asyncrestoreitemactionv1.ProgressResponse{Progress: wire.Progress(progress),
		LastLines: tail.Lines(progress.LastLines)}, nil
}

func (s *server) ProgressOfMany(
	ctx context.Context, req *asyncrestoreitemactionv1.ProgressOfManyRequest,
) (*asyncrestoreitemactionv1.ProgressOfManyResponse, error) {
	replies, err := glue.Many(ctx, req.GetOperationIds(),
		func(ctx context.Context, id string) (*asyncrestoreitemactionv1.ProgressResponse, error) {
			return s.Progress(ctx, &asyncrestoreitemactionv1.ProgressRequest{Plugin: req.GetPlugin(), OperationId: id,
				Restore: req.GetRestore()})
		})
	if err != nil {
		return nil, err
	}
	progress, lines := wire.ManyProgress(replies)
	return &asyncrestoreitemactionv1.ProgressOfManyResponse{Progress: progress, LastLines: lines}, nil
}

func (s *server) Cancel(
	ctx context.Context, req *asyncrestoreitemactionv1.CancelRequest,
) (*asyncrestoreitemactionv1.CancelResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	restore, err := s.restores.Get("restore", req.GetRestore())
	if err != nil {
		return nil, err
	}
	err = action.Handler.Cancel(ctx, &CancelInput{OperationID: req.GetOperationId(), Restore: restore})
	cannot := errors.Is(err, framework.ErrCannotCancel)
	if err != nil && !cannot {
		return nil, err
	}
	return &asyncrestoreitemactionv1.CancelResponse{Ack: !cannot}, nil
}
