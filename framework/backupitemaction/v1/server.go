package v1

import (
	"context"

	"google.golang.org/grpc"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[BackupItemAction] {
	return hostapi.Kind[BackupItemAction]{
		KindVersion: hostapi.KindVersion{
			Wire: "BackupItemAction", Probe: backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName,
			Listed: 1,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[BackupItemAction]) {
	backupitemactionv1.RegisterBackupItemActionServer(registrar, &server{handlers: handlers})
}

// server puts the actions of a process on the wire.
type server struct {
	backupitemactionv1.UnimplementedBackupItemActionServer
	handlers *glue.Handlers[BackupItemAction]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) AppliesTo(
	ctx context.Context, req *backupitemactionv1.BackupItemActionAppliesToRequest,
) (*backupitemactionv1.BackupItemActionAppliesToResponse, error) {
	action, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer action.Release()
	selector, err := action.Handler.AppliesTo(ctx)
	if err != nil {
		return nil, err
	}
	return &backupitemactionv1.BackupItemActionAppliesToResponse{ResourceSelector: wire.Selector(selector)}, nil
}

func (s *server) Execute(
	ctx context.Context, req *backupitemactionv1.ExecuteRequest,
) (*backupitemactionv1.ExecuteResponse, error) {
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
	return &backupitemactionv1.ExecuteResponse{
		Item:            updated,
		AdditionalItems: wire.Identifiers(output.AdditionalItems),
	}, nil
}

func executeRaw(
	ctx context.Context, action RawExecutor, req *backupitemactionv1.ExecuteRequest,
) (*backupitemactionv1.ExecuteResponse, error) {
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
	return &backupitemactionv1.ExecuteResponse{
		Item:            output.UpdatedItem,
		AdditionalItems: wire.Identifiers(output.AdditionalItems),
	}, nil
}
