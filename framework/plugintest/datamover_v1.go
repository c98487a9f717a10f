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
	output, err := moved(ctx, m.client.Backup, dmv1.EncodeBackup(m.name, input), input.Report,
		(*datamoverv1.BackupResponse).GetProgress, (*datamoverv1.BackupResponse).GetResult, dmv1.DecodeBackup)
	return output, m.wrap(err)
}

func (m dataMoverV1) Restore(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	output, err := moved(ctx, m.client.Restore, dmv1.EncodeRestore(m.name, input), input.Report,
		(*datamoverv1.RestoreResponse).GetProgress, (*datamoverv1.RestoreResponse).GetResult, dmv1.DecodeRestore)
	return output, m.wrap(err)
}

func (m dataMoverV1) Forget(ctx context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	output, err := moved(ctx, m.client.Forget, dmv1.EncodeForget(m.name, input), input.Report,
		(*datamoverv1.ForgetResponse).GetProgress, (*datamoverv1.ForgetResponse).GetResult, dmv1.DecodeForget)
	return output, m.wrap(err)
}

func (m dataMoverV1) Maintain(ctx context.Context, input *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	output, err := moved(ctx, m.client.Maintain, dmv1.EncodeMaintain(m.name, input), input.Report,
		(*datamoverv1.MaintainResponse).GetProgress, (*datamoverv1.MaintainResponse).GetResult, dmv1.DecodeMaintain)
	return output, m.wrap(err)
}

func (m dataMoverV1) Check(ctx context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	output, err := moved(ctx, m.client.Check, dmv1.EncodeCheck(m.name, input), input.Report,
		(*datamoverv1.CheckResponse).GetProgress, (*datamoverv1.CheckResponse).GetResult, dmv1.DecodeCheck)
	return output, m.wrap(err)
}

// moved makes a call, reports its progress, and returns its result.
func moved[Q, A, R, O any](
	ctx context.Context, call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error),
	request *Q, report func(dmv1.Progress), progressOf func(*A) *datamoverv1.Progress, resultOf func(*A) *R,
	outputOf func(*R) O,
) (*O, error) {
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
			output := outputOf(result)
			return &output, nil
		case err != nil:
			return nil, err
		}
		result = resultOf(answer)
		if sent := progressOf(answer); sent != nil && report != nil {
			report(dmv1.DecodeProgress(sent))
		}
	}
}
