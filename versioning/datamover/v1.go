package datamover

import (
	"context"

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
	return follow(ctx, m.Plugin, m.client.Backup, dmv1.EncodeBackup(m.Name(), &backup), report,
		func(sent *datamoverv1.BackupResult) (Snapshot, error) {
			output := dmv1.DecodeBackup(sent)
			return output, output.Validate(&backup)
		})
}

func (m v1) Restore(ctx context.Context, restore Restore, report func(Progress)) (Restored, error) {
	return follow(ctx, m.Plugin, m.client.Restore, dmv1.EncodeRestore(m.Name(), &restore), report,
		func(sent *datamoverv1.RestoreResult) (Restored, error) {
			output := dmv1.DecodeRestore(sent)
			return output, output.Validate(&restore)
		})
}

func (m v1) Forget(ctx context.Context, forget Forget, report func(Progress)) (Forgotten, error) {
	return follow(ctx, m.Plugin, m.client.Forget, dmv1.EncodeForget(m.Name(), &forget), report,
		func(sent *datamoverv1.ForgetResult) (Forgotten, error) {
			output := dmv1.DecodeForget(sent)
			return output, output.Validate(&forget)
		})
}

func (m v1) Maintain(ctx context.Context, maintain Maintain, report func(Progress)) (Maintained, error) {
	return follow(ctx, m.Plugin, m.client.Maintain, dmv1.EncodeMaintain(m.Name(), &maintain), report,
		func(sent *datamoverv1.MaintainResult) (Maintained, error) {
			output := dmv1.DecodeMaintain(sent)
			return output, output.Validate(&maintain)
		})
}

func (m v1) Check(ctx context.Context, check Check, report func(Progress)) (Checked, error) {
	return follow(ctx, m.Plugin, m.client.Check, dmv1.EncodeCheck(m.Name(), &check), report,
		func(sent *datamoverv1.CheckResult) (Checked, error) {
			output := dmv1.DecodeCheck(sent)
			return output, output.Validate(&check)
		})
}
