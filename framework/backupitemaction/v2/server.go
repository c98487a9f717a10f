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
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[BackupItemAction] {
	return hostapi.Kind[BackupItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "BackupItemActionV2", Probe: backupitemactionv2.BackupItemAction_AppliesTo_FullMethodName,
			Listed: 2, Operations: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[BackupItemAction]) {
	backupitemactionv2.RegisterBackupItemActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	backupitemactionv2.UnimplementedBackupItemActionServer
	handlers *glue.Handlers[BackupItemAction]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) AppliesTo(
	ctx context.Context, req *backupitemactionv2.BackupItemActionAppliesToRequest,
) (*backupitemactionv2.BackupItemActionAppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &backupitemactionv2.BackupItemActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Execute(
	ctx context.Context, req *backupitemactionv2.ExecuteRequest,
) (*backupitemactionv2.ExecuteResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	if raw, ok := any(action.Handler).(RawExecutor); ok {
		return executeRaw(ctx, raw, req)
	}
	item, err := wire.DecodeItem("item", req.GetItem())
	if err != nil {
		return nil, err
	}
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	output, err := action.Handler.Execute(ctx, &ExecuteInput{Item: item, Backup: backup})
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
	return &backupitemactionv2.ExecuteResponse{
		Item:               updated,
		AdditionalItems:    wire.Identifiers(output.AdditionalItems),
		OperationID:        output.OperationID,
		PostOperationItems: wire.Identifiers(output.PostOperationItems),
	}, nil
}

func executeRaw(
	ctx context.Context, action RawExecutor, req *backupitemactionv2.ExecuteRequest,
) (*backupitemactionv2.ExecuteResponse, error) {
	output, err := action.ExecuteRaw(ctx, &ExecuteRawInput{Item: req.GetItem(), Backup: req.GetBackup()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &ExecuteRawOutput{}
	}
	if output.UpdatedItem == nil {
		output.UpdatedItem = req.GetItem()
	}
	return &backupitemactionv2.ExecuteResponse{
		Item:               output.UpdatedItem,
		AdditionalItems:    wire.Identifiers(output.AdditionalItems),
		OperationID:        output.OperationID,
		PostOperationItems: wire.Identifiers(output.PostOperationItems),
	}, nil
}

func (s *server) Progress(
	ctx context.Context, req *backupitemactionv2.BackupItemActionProgressRequest,
) (*backupitemactionv2.BackupItemActionProgressResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	progress, err := action.Handler.Progress(ctx, &ProgressInput{OperationID: req.GetOperationID(), Backup: backup})
	if err != nil {
		return nil, err
	}
	return &backupitemactionv2.BackupItemActionProgressResponse{Progress: wire.Progress(progress)}, nil
}

func (s *server) Cancel(
	ctx context.Context, req *backupitemactionv2.BackupItemActionCancelRequest,
) (*emptypb.Empty, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	backup, err := s.backups.Get("backup", req.GetBackup())
	if err != nil {
		return nil, err
	}
	err = action.Handler.Cancel(ctx, &CancelInput{OperationID: req.GetOperationID(), Backup: backup})
	if err != nil && !errors.Is(err, framework.ErrCannotCancel) { // which this wire cannot express
		return nil, err
	}
	return &emptypb.Empty{}, nil
}
