package plugintest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

// DataMoverV1 returns the mover that is registered as name. Report of its inputs may be nil.
func (p *Plugin) DataMoverV1(name string, options ...Option) dmv1.DataMover {
	p.t.Helper()
	to := p.target(dmv1.Kind().KindVersion, name)
	return dataMoverV1{to, datamoverv1.NewDataMoverServiceClient(p.configured(to, options))}
}

type dataMoverV1 struct {
	target
	client datamoverv1.DataMoverServiceClient
}

func (m dataMoverV1) Backup(ctx context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	result, err := moved(ctx, m.client.Backup, &datamoverv1.BackupRequest{
		Plugin: m.name, Repository: sentRepository(input.Repository), Key: input.Key, Volume: sentVolume(input.Volume),
		Parent: input.Parent, Tags: input.Tags, Settings: input.Settings, Again: input.Again,
	}, input.Report, (*datamoverv1.BackupResponse).GetProgress, (*datamoverv1.BackupResponse).GetResult)
	if err != nil {
		return nil, m.wrap(err)
	}
	return &dmv1.BackupOutput{
		SnapshotID: result.GetSnapshotId(), Bytes: result.GetBytes(), NewBytes: result.GetNewBytes(),
		Warnings: result.GetWarnings(),
	}, nil
}

func (m dataMoverV1) Restore(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	result, err := moved(ctx, m.client.Restore, &datamoverv1.RestoreRequest{
		Plugin: m.name, Repository: sentRepository(input.Repository), SnapshotId: input.SnapshotID,
		Volume: sentVolume(input.Volume), Settings: input.Settings, Bytes: input.Bytes,
	}, input.Report, (*datamoverv1.RestoreResponse).GetProgress, (*datamoverv1.RestoreResponse).GetResult)
	if err != nil {
		return nil, m.wrap(err)
	}
	return &dmv1.RestoreOutput{Bytes: result.GetBytes(), Warnings: result.GetWarnings()}, nil
}

func (m dataMoverV1) Forget(ctx context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	result, err := moved(ctx, m.client.Forget, &datamoverv1.ForgetRequest{
		Plugin: m.name, Repository: sentRepository(input.Repository), SnapshotIds: input.SnapshotIDs, Tags: input.Tags,
	}, input.Report, (*datamoverv1.ForgetResponse).GetProgress, (*datamoverv1.ForgetResponse).GetResult)
	if err != nil {
		return nil, m.wrap(err)
	}
	return &dmv1.ForgetOutput{Kept: result.GetKept(), Warnings: result.GetWarnings()}, nil
}

func (m dataMoverV1) Maintain(ctx context.Context, input *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	result, err := moved(ctx, m.client.Maintain, &datamoverv1.MaintainRequest{
		Plugin: m.name, Repository: sentRepository(input.Repository), Settings: input.Settings,
	}, input.Report, (*datamoverv1.MaintainResponse).GetProgress, (*datamoverv1.MaintainResponse).GetResult)
	if err != nil {
		return nil, m.wrap(err)
	}
	return &dmv1.MaintainOutput{FreedBytes: result.GetFreedBytes(), Warnings: result.GetWarnings()}, nil
}

func (m dataMoverV1) Check(ctx context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	depths := map[dmv1.Depth]datamoverv1.Depth{
		dmv1.Access: datamoverv1.Depth_DEPTH_ACCESS, dmv1.Structure: datamoverv1.Depth_DEPTH_STRUCTURE,
		dmv1.Data: datamoverv1.Depth_DEPTH_DATA,
	}
	result, err := moved(ctx, m.client.Check, &datamoverv1.CheckRequest{
		Plugin: m.name, Repository: sentRepository(input.Repository), Depth: depths[input.Depth], Create: input.Create,
	}, input.Report, (*datamoverv1.CheckResponse).GetProgress, (*datamoverv1.CheckResponse).GetResult)
	if err != nil {
		return nil, m.wrap(err)
	}
	return &dmv1.CheckOutput{Created: result.GetCreated(), Warnings: result.GetWarnings()}, nil
}

// moved makes a call, reports its progress, and returns its result.
func moved[Q, A, R any](
	ctx context.Context, call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error),
	request *Q,
	report func(dmv1.Progress), progressOf func(*A) *datamoverv1.Progress, resultOf func(*A) *R,
) (*R, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := call(ctx, request)
	if err != nil {
		return nil, err
	}
	var result *R
	for {
		answer, err := stream.Recv()
		switch {
		case err == io.EOF && result == nil:
			return nil, errors.New("the call ended without a result")
		case err == io.EOF:
			return result, nil
		case err != nil:
			return nil, err
		}
		result = resultOf(answer)
		if sent := progressOf(answer); sent != nil && report != nil {
			report(dmv1.Progress{
				DoneBytes: sent.GetDoneBytes(), TotalBytes: sent.GetTotalBytes(),
				DoneFiles: sent.GetDoneFiles(), TotalFiles: sent.GetTotalFiles(), Activity: sent.GetActivity(),
			})
		}
	}
}

func sentRepository(r dmv1.Repository) *datamoverv1.Repository {
	return &datamoverv1.Repository{Provider: r.Provider, Config: r.Config, Path: r.Path, Password: r.Password,
		ReadOnly: r.ReadOnly}
}

func sentVolume(v dmv1.Volume) *datamoverv1.Volume {
	return &datamoverv1.Volume{Path: v.Path, Block: v.Block}
}
