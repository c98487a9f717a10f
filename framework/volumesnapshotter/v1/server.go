package v1

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[VolumeSnapshotter] {
	return hostapi.Kind[VolumeSnapshotter]{
		KindVersion: hostapi.KindVersion{
			Wire: "VolumeSnapshotter", Probe: volumesnapshotterv1.VolumeSnapshotter_GetVolumeInfo_FullMethodName,
			Listed: 3, HasInit: true, HostKeys: []string{"credentialsFile"},
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[VolumeSnapshotter]) {
	volumesnapshotterv1.RegisterVolumeSnapshotterServer(registrar, &server{handlers: handlers})
}

// server puts the snapshotters of a process on the wire.
type server struct {
	volumesnapshotterv1.UnimplementedVolumeSnapshotterServer
	handlers *glue.Handlers[VolumeSnapshotter]
}

func (s *server) Init(
	ctx context.Context, req *volumesnapshotterv1.VolumeSnapshotterInitRequest,
) (*shared.Empty, error) {
	if err := s.handlers.Init(ctx, req.GetPlugin(), req.GetConfig()); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) CreateVolumeFromSnapshot(
	ctx context.Context, req *volumesnapshotterv1.CreateVolumeRequest,
) (*volumesnapshotterv1.CreateVolumeResponse, error) {
	snapshotter, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer snapshotter.Release()
	output, err := snapshotter.Handler.CreateVolumeFromSnapshot(ctx, &CreateVolumeFromSnapshotInput{
		SnapshotID: req.GetSnapshotID(), VolumeType: req.GetVolumeType(), VolumeAZ: req.GetVolumeAZ(),
		IOPS: receivedIOPS(req.GetIops()),
	})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &CreateVolumeFromSnapshotOutput{}
	}
	return &volumesnapshotterv1.CreateVolumeResponse{VolumeID: output.VolumeID}, nil
}

func (s *server) GetVolumeInfo(
	ctx context.Context, req *volumesnapshotterv1.GetVolumeInfoRequest,
) (*volumesnapshotterv1.GetVolumeInfoResponse, error) {
	snapshotter, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer snapshotter.Release()
	output, err := snapshotter.Handler.GetVolumeInfo(ctx, &GetVolumeInfoInput{VolumeID: req.GetVolumeID(),
		VolumeAZ: req.GetVolumeAZ()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &GetVolumeInfoOutput{}
	}
	return &volumesnapshotterv1.GetVolumeInfoResponse{VolumeType: output.VolumeType, Iops: sentIOPS(output.IOPS)}, nil
}

func (s *server) CreateSnapshot(
	ctx context.Context, req *volumesnapshotterv1.CreateSnapshotRequest,
) (*volumesnapshotterv1.CreateSnapshotResponse, error) {
	snapshotter, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer snapshotter.Release()
	output, err := snapshotter.Handler.CreateSnapshot(ctx, &CreateSnapshotInput{VolumeID: req.GetVolumeID(),
		VolumeAZ: req.GetVolumeAZ(), Tags: req.GetTags()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &CreateSnapshotOutput{}
	}
	return &volumesnapshotterv1.CreateSnapshotResponse{SnapshotID: output.SnapshotID}, nil
}

func (s *server) DeleteSnapshot(
	ctx context.Context, req *volumesnapshotterv1.DeleteSnapshotRequest,
) (*shared.Empty, error) {
	snapshotter, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer snapshotter.Release()
	if err := snapshotter.Handler.DeleteSnapshot(ctx, &DeleteSnapshotInput{SnapshotID: req.GetSnapshotID()}); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) GetVolumeID(
	ctx context.Context, req *volumesnapshotterv1.GetVolumeIDRequest,
) (*volumesnapshotterv1.GetVolumeIDResponse, error) {
	snapshotter, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer snapshotter.Release()
	persistentVolume, err := wire.DecodeItem("persistentVolume", req.GetPersistentVolume())
	if err != nil {
		return nil, err
	}
	output, err := snapshotter.Handler.GetVolumeID(ctx, &GetVolumeIDInput{PersistentVolume: persistentVolume})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &GetVolumeIDOutput{}
	}
	return &volumesnapshotterv1.GetVolumeIDResponse{VolumeID: output.VolumeID}, nil
}

func (s *server) SetVolumeID(
	ctx context.Context, req *volumesnapshotterv1.SetVolumeIDRequest,
) (*volumesnapshotterv1.SetVolumeIDResponse, error) {
	snapshotter, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer snapshotter.Release()
	persistentVolume, err := wire.DecodeItem("persistentVolume", req.GetPersistentVolume())
	if err != nil {
		return nil, err
	}
	output, err := snapshotter.Handler.SetVolumeID(ctx, &SetVolumeIDInput{PersistentVolume: persistentVolume,
		VolumeID: req.GetVolumeID()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &SetVolumeIDOutput{}
	}
	encoded, err := wire.EncodeUpdated(output.PersistentVolume, req.GetPersistentVolume())
	if err != nil {
		return nil, err
	}
	return &volumesnapshotterv1.SetVolumeIDResponse{PersistentVolume: encoded}, nil
}

// receivedIOPS returns iops as it was sent: 0 means none.
func receivedIOPS(iops int64) *int64 {
	if iops == 0 {
		return nil
	}
	return &iops
}

func sentIOPS(iops *int64) int64 {
	if iops == nil {
		return 0
	}
	return *iops
}
