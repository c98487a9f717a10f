package datamover

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Mover] {
	return versioning.NewVersion(dmv1.Kind(), newV1, versioning.Calls{
		datamoverv1.DataMoverService_Backup_FullMethodName:   {Class: versioning.Execute},
		datamoverv1.DataMoverService_Restore_FullMethodName:  {Class: versioning.Execute},
		datamoverv1.DataMoverService_Forget_FullMethodName:   {Class: versioning.Execute},
		datamoverv1.DataMoverService_Maintain_FullMethodName: {Class: versioning.Execute},
		datamoverv1.DataMoverService_Check_FullMethodName:    {Class: versioning.Execute},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Mover {
	return v1{Plugin: p, client: datamoverv1.NewDataMoverServiceClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client datamoverv1.DataMoverServiceClient
}

func (m v1) Backup(ctx context.Context, backup Backup, report func(Progress)) (Snapshot, error) {
	request := &datamoverv1.BackupRequest{
		Plugin: m.Name(), Repository: sentRepository(backup.Repository), Key: backup.Key, Volume: sentVolume(backup.Volume),
		Parent: backup.Parent, Tags: backup.Tags, Settings: backup.Settings, Again: backup.Again,
	}
	return follow(ctx, m.Plugin, m.client.Backup, request, report, func(sent *datamoverv1.BackupResult) (Snapshot, error) {
		snapshot := Snapshot{ID: sent.GetSnapshotId(), Bytes: sent.GetBytes(), NewBytes: sent.GetNewBytes(),
			Warnings: sent.GetWarnings()}
		return snapshot, validateSnapshot(snapshot, backup.Parent)
	})
}

func (m v1) Restore(ctx context.Context, restore Restore, report func(Progress)) (Restored, error) {
	request := &datamoverv1.RestoreRequest{
		Plugin: m.Name(), Repository: sentRepository(restore.Repository), SnapshotId: restore.SnapshotID,
		Volume: sentVolume(restore.Volume), Settings: restore.Settings, Bytes: restore.Bytes,
	}
	return follow(ctx, m.Plugin, m.client.Restore, request, report, func(sent *datamoverv1.RestoreResult) (Restored,
		error) {
		restored := Restored{Bytes: sent.GetBytes(), Warnings: sent.GetWarnings()}
		return restored, validateCounts(restored.Warnings, count{"bytes", restored.Bytes})
	})
}

func (m v1) Forget(ctx context.Context, forget Forget, report func(Progress)) (Forgotten, error) {
	request := &datamoverv1.ForgetRequest{
		Plugin: m.Name(), Repository: sentRepository(forget.Repository), SnapshotIds: forget.SnapshotIDs, Tags: forget.Tags,
	}
	return follow(ctx, m.Plugin, m.client.Forget, request, report, func(sent *datamoverv1.ForgetResult) (Forgotten,
		error) {
		return Forgotten{Kept: sent.GetKept(), Warnings: sent.GetWarnings()}, errors.Join(validateCounts(sent.GetWarnings()),
			validateKept(sent.GetKept(), forget.SnapshotIDs))
	})
}

func (m v1) Maintain(ctx context.Context, maintain Maintain, report func(Progress)) (Maintained, error) {
	request := &datamoverv1.MaintainRequest{Plugin: m.Name(), Repository: sentRepository(maintain.Repository),
		Settings: maintain.Settings}
	return follow(ctx, m.Plugin, m.client.Maintain, request, report, func(sent *datamoverv1.MaintainResult) (Maintained,
		error) {
		maintained := Maintained{FreedBytes: sent.GetFreedBytes(), Warnings: sent.GetWarnings()}
		return maintained, validateCounts(maintained.Warnings, count{"freed_bytes", maintained.FreedBytes})
	})
}

func (m v1) Check(ctx context.Context, check Check, report func(Progress)) (Checked, error) {
	request := &datamoverv1.CheckRequest{
		Plugin: m.Name(), Repository: sentRepository(check.Repository), Depth: sentDepth(check.Depth), Create: check.Create,
	}
	return follow(ctx, m.Plugin, m.client.Check, request, report, func(sent *datamoverv1.CheckResult) (Checked, error) {
		checked := Checked{Created: sent.GetCreated(), Warnings: sent.GetWarnings()}
		return checked, validateChecked(checked, check.Create)
	})
}

func sentRepository(r Repository) *datamoverv1.Repository {
	return &datamoverv1.Repository{Provider: r.Provider, Config: r.Config, Path: r.Path, Password: r.Password,
		ReadOnly: r.ReadOnly}
}

func sentVolume(v Volume) *datamoverv1.Volume {
	return &datamoverv1.Volume{Path: v.Path, Block: v.Block}
}

func sentDepth(depth Depth) datamoverv1.Depth {
	switch depth {
	case Access:
		return datamoverv1.Depth_DEPTH_ACCESS
	case Structure:
		return datamoverv1.Depth_DEPTH_STRUCTURE
	default:
		return datamoverv1.Depth_DEPTH_DATA
	}
}
