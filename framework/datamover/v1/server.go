package v1

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[DataMover] {
	return hostapi.Kind[DataMover]{
		KindVersion: hostapi.KindVersion{
			Wire: "DataMover", Probe: datamoverv1.DataMoverService_Check_FullMethodName,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[DataMover]) {
	datamoverv1.RegisterDataMoverServiceServer(registrar, &server{handlers: handlers})
}

// server puts the movers of a process on the wire.
type server struct {
	datamoverv1.UnimplementedDataMoverServiceServer
	handlers *glue.Handlers[DataMover]
}

func (s *server) Backup(
	req *datamoverv1.BackupRequest, stream grpc.ServerStreamingServer[datamoverv1.BackupResponse],
) error {
	output, err := call(s.handlers, stream, req.GetPlugin(),
		func(p *datamoverv1.Progress) *datamoverv1.BackupResponse {
			return &datamoverv1.BackupResponse{Part: &datamoverv1.BackupResponse_Progress{Progress: p}}
		},
		func(ctx context.Context, mover DataMover, report func(Progress)) (*BackupOutput, error) {
			input := decodeBackup(req)
			input.Report = report
			return mover.Backup(ctx, input)
		})
	if err != nil {
		return err
	}
	return stream.Send(&datamoverv1.BackupResponse{Part: &datamoverv1.BackupResponse_Result{Result: encodeBackup(output)}})
}

func (s *server) Restore(
	req *datamoverv1.RestoreRequest, stream grpc.ServerStreamingServer[datamoverv1.RestoreResponse],
) error {
	output, err := call(s.handlers, stream, req.GetPlugin(),
		func(p *datamoverv1.Progress) *datamoverv1.RestoreResponse {
			return &datamoverv1.RestoreResponse{Part: &datamoverv1.RestoreResponse_Progress{Progress: p}}
		},
		func(ctx context.Context, mover DataMover, report func(Progress)) (*RestoreOutput, error) {
			input := decodeRestore(req)
			input.Report = report
			return mover.Restore(ctx, input)
		})
	if err != nil {
		return err
	}
	return stream.Send(&datamoverv1.RestoreResponse{
		Part: &datamoverv1.RestoreResponse_Result{Result: encodeRestore(output)},
	})
}

func (s *server) Forget(
	req *datamoverv1.ForgetRequest, stream grpc.ServerStreamingServer[datamoverv1.ForgetResponse],
) error {
	output, err := call(s.handlers, stream, req.GetPlugin(),
		func(p *datamoverv1.Progress) *datamoverv1.ForgetResponse {
			return &datamoverv1.ForgetResponse{Part: &datamoverv1.ForgetResponse_Progress{Progress: p}}
		},
		func(ctx context.Context, mover DataMover, report func(Progress)) (*ForgetOutput, error) {
			input := decodeForget(req)
			input.Report = report
			return mover.Forget(ctx, input)
		})
	if err != nil {
		return err
	}
	return stream.Send(&datamoverv1.ForgetResponse{Part: &datamoverv1.ForgetResponse_Result{Result: encodeForget(output)}})
}

func (s *server) Maintain(
	req *datamoverv1.MaintainRequest, stream grpc.ServerStreamingServer[datamoverv1.MaintainResponse],
) error {
	output, err := call(s.handlers, stream, req.GetPlugin(),
		func(p *datamoverv1.Progress) *datamoverv1.MaintainResponse {
			return &datamoverv1.MaintainResponse{Part: &datamoverv1.MaintainResponse_Progress{Progress: p}}
		},
		func(ctx context.Context, mover DataMover, report func(Progress)) (*MaintainOutput, error) {
			input := decodeMaintain(req)
			input.Report = report
			return mover.Maintain(ctx, input)
		})
	if err != nil {
		return err
	}
	return stream.Send(&datamoverv1.MaintainResponse{
		Part: &datamoverv1.MaintainResponse_Result{Result: encodeMaintain(output)},
	})
}

func (s *server) Check(
	req *datamoverv1.CheckRequest, stream grpc.ServerStreamingServer[datamoverv1.CheckResponse],
) error {
	output, err := call(s.handlers, stream, req.GetPlugin(),
		func(p *datamoverv1.Progress) *datamoverv1.CheckResponse {
			return &datamoverv1.CheckResponse{Part: &datamoverv1.CheckResponse_Progress{Progress: p}}
		},
		func(ctx context.Context, mover DataMover, report func(Progress)) (*CheckOutput, error) {
			input := decodeCheck(req)
			input.Report = report
			return mover.Check(ctx, input)
		})
	if err != nil {
		return err
	}
	return stream.Send(&datamoverv1.CheckResponse{Part: &datamoverv1.CheckResponse_Result{Result: encodeCheck(output)}})
}

// call has a mover do its work, and sends its progress meanwhile; wrap makes a message of that.
func call[A, O any](
	handlers *glue.Handlers[DataMover], stream grpc.ServerStreamingServer[A], plugin string,
	wrap func(*datamoverv1.Progress) *A, work func(context.Context, DataMover, func(Progress)) (*O, error),
) (*O, error) {
	mover, err := handlers.Use(stream.Context(), plugin)
	if err != nil {
		return nil, err
	}
	defer mover.Release()
	reports := &reporter{send: func(p *datamoverv1.Progress) error { return stream.Send(wrap(p)) }}
	defer reports.end()
	output, err := work(stream.Context(), mover.Handler, reports.report)
	if err == nil && output == nil {
		err = errors.New("the mover returned neither an output nor an error")
	}
	return output, err
}
