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
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[AsyncBackupItemAction] {
	return hostapi.Kind[AsyncBackupItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "AsyncBackupItemAction", Probe: asyncbackupitemactionv1.AsyncBackupItemActionService_AppliesTo_FullMethodName,
			Operations: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[AsyncBackupItemAction]) {
	asyncbackupitemactionv1.RegisterAsyncBackupItemActionServiceServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	asyncbackupitemactionv1.UnimplementedAsyncBackupItemActionServiceServer
	handlers *glue.Handlers[AsyncBackupItemAction]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) AppliesTo(
	ctx context.Context, req *asyncbackupitemactionv1.AppliesToRequest,
) (*asyncbackupitemactionv1.AppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &asyncbackupitemactionv1.AppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Start(
	ctx context.Context, req *asyncbackupitemactionv1.StartRequest,
) (*asyncbackupitemactionv1.StartResponse, error) {
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
	output, err := action.Handler.Start(ctx, &StartInput{Item: item, Backup: backup, Key: req.GetKey()})
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
	return &asyncbackupitemactionv1.StartResponse{
		Item:               updated,
		OperationId:        output.OperationID,
		AdditionalItems:    wire.Identifiers(output.AdditionalItems),
		PostOperationItems: wire.Identifiers(output.PostOperationItems),
	}, nil
}

func (s *server) Progress(
	ctx context.Context, req *asyncbackupitemactionv1.ProgressRequest,
) (*asyncbackupitemactionv1.ProgressResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	progress, err := action.Handler.Progress(ctx, &ProgressInput{OperationID: req.GetOperationId(), Backup: backup})
	if err != nil {
		return nil, err
	}
	return &asyncbackupitemactionv1.ProgressResponse{Progress: wire.Progress(progress),
		LastLines: tail.Lines(progress.LastLines)}, nil
}

func (s *server) ProgressOfMany(
	ctx context.Context, req *asyncbackupitemactionv1.ProgressOfManyRequest,
) (*asyncbackupitemactionv1.ProgressOfManyResponse, error) {
	replies, err := glue.Many(ctx, req.GetOperationIds(),
		func(ctx context.Context, id string) (*asyncbackupitemactionv1.ProgressResponse, error) {
			return s.Progress(ctx, &asyncbackupitemactionv1.ProgressRequest{Plugin: req.GetPlugin(), OperationId: id,
				Backup: req.GetBackup()})
		})
	if err != nil {
		return nil, err
	}
	progress, lines := wire.ManyProgress(replies)
	return &asyncbackupitemactionv1.ProgressOfManyResponse{Progress: progress, LastLines: lines}, nil
}

func (s *server) Cancel(
	ctx context.Context, req *asyncbackupitemactionv1.CancelRequest,
) (*asyncbackupitemactionv1.CancelResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	err = action.Handler.Cancel(ctx, &CancelInput{OperationID: req.GetOperationId(), Backup: backup})
	cannot := errors.Is(err, framework.ErrCannotCancel)
	if err != nil && !cannot {
		return nil, err
	}
	return &asyncbackupitemactionv1.CancelResponse{Ack: !cannot}, nil
}
