package v1

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

func bind(registrar grpc.ServiceRegistrar, handlers *framework.Handlers[VolumeSnapshotter]) {
	volumesnapshotterv1.RegisterVolumeSnapshotterServer(registrar, &server{handlers: handlers})
}

// server puts the snapshotters of a process on the wire.
type server struct {
	volumesnapshotterv1.UnimplementedVolumeSnapshotterServer
	handlers *framework.Handlers[VolumeSnapshotter]
}

func (s *server) Init(ctx context.Context, req *volumesnapshotterv1.VolumeSnapshotterInitRequest) (*shared.Empty, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	if err := snapshotter.Init(ctx, req.GetConfig()); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) CreateVolumeFromSnapshot(ctx context.Context, req *volumesnapshotterv1.CreateVolumeRequest) (*volumesnapshotterv1.CreateVolumeResponse, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	volumeID, err := snapshotter.CreateVolumeFromSnapshot(ctx,
		req.GetSnapshotID(), req.GetVolumeType(), req.GetVolumeAZ(), receivedIOPS(req.GetIops()))
	if err != nil {
		return nil, err
	}
	return &volumesnapshotterv1.CreateVolumeResponse{VolumeID: volumeID}, nil
}

func (s *server) GetVolumeInfo(ctx context.Context, req *volumesnapshotterv1.GetVolumeInfoRequest) (*volumesnapshotterv1.GetVolumeInfoResponse, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	volumeType, iops, err := snapshotter.GetVolumeInfo(ctx, req.GetVolumeID(), req.GetVolumeAZ())
	if err != nil {
		return nil, err
	}
	return &volumesnapshotterv1.GetVolumeInfoResponse{VolumeType: volumeType, Iops: sentIOPS(iops)}, nil
}

func (s *server) CreateSnapshot(ctx context.Context, req *volumesnapshotterv1.CreateSnapshotRequest) (*volumesnapshotterv1.CreateSnapshotResponse, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	snapshotID, err := snapshotter.CreateSnapshot(ctx, req.GetVolumeID(), req.GetVolumeAZ(), req.GetTags())
	if err != nil {
		return nil, err
	}
	return &volumesnapshotterv1.CreateSnapshotResponse{SnapshotID: snapshotID}, nil
}

func (s *server) DeleteSnapshot(ctx context.Context, req *volumesnapshotterv1.DeleteSnapshotRequest) (*shared.Empty, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	if err := snapshotter.DeleteSnapshot(ctx, req.GetSnapshotID()); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) GetVolumeID(ctx context.Context, req *volumesnapshotterv1.GetVolumeIDRequest) (*volumesnapshotterv1.GetVolumeIDResponse, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	persistentVolume, err := wire.DecodeItem("persistentVolume", req.GetPersistentVolume())
	if err != nil {
		return nil, err
	}
	volumeID, err := snapshotter.GetVolumeID(ctx, persistentVolume)
	if err != nil {
		return nil, err
	}
	return &volumesnapshotterv1.GetVolumeIDResponse{VolumeID: volumeID}, nil
}

func (s *server) SetVolumeID(ctx context.Context, req *volumesnapshotterv1.SetVolumeIDRequest) (*volumesnapshotterv1.SetVolumeIDResponse, error) {
	snapshotter, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	persistentVolume, err := wire.DecodeItem("persistentVolume", req.GetPersistentVolume())
	if err != nil {
		return nil, err
	}
	changed, err := snapshotter.SetVolumeID(ctx, persistentVolume, req.GetVolumeID())
	if err != nil {
		return nil, err
	}
	encoded, err := wire.EncodeUpdated(changed, req.GetPersistentVolume())
	if err != nil {
		return nil, err
	}
	return &volumesnapshotterv1.SetVolumeIDResponse{PersistentVolume: encoded}, nil
}

// receivedIOPS is iops as it was sent: 0 stands for none.
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
