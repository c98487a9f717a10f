package volumesnapshotter

import (
	"context"

	"google.golang.org/grpc"

	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// NewV1 is the snapshotter listed as name in the plugin that conn reaches, at version 1 of the kind.
func NewV1(conn grpc.ClientConnInterface, name string) Snapshotter {
	return v1{
		Plugin: versioning.NewPlugin("VolumeSnapshotter", name),
		client: volumesnapshotterv1.NewVolumeSnapshotterClient(conn),
	}
}

type v1 struct {
	versioning.Plugin
	client volumesnapshotterv1.VolumeSnapshotterClient
}

func (s v1) Init(ctx context.Context, config map[string]string) error {
	_, err := s.client.Init(ctx, &volumesnapshotterv1.VolumeSnapshotterInitRequest{Plugin: s.Name(), Config: config})
	return s.Wrap(err)
}

func (s v1) CreateVolumeFromSnapshot(ctx context.Context, snapshotID string, like Volume) (string, error) {
	answer, err := s.client.CreateVolumeFromSnapshot(ctx, &volumesnapshotterv1.CreateVolumeRequest{
		Plugin: s.Name(), SnapshotID: snapshotID, VolumeType: like.Type, VolumeAZ: like.Zone, Iops: like.IOPS,
	})
	if err != nil {
		return "", s.Wrap(err)
	}
	if err := validateID("volume", answer.GetVolumeID()); err != nil {
		return "", s.Reject(err)
	}
	return answer.GetVolumeID(), nil
}

func (s v1) GetVolumeInfo(ctx context.Context, volumeID, zone string) (Volume, error) {
	answer, err := s.client.GetVolumeInfo(ctx, &volumesnapshotterv1.GetVolumeInfoRequest{
		Plugin: s.Name(), VolumeID: volumeID, VolumeAZ: zone,
	})
	if err != nil {
		return Volume{}, s.Wrap(err)
	}
	if err := validateIOPS(answer.GetIops()); err != nil {
		return Volume{}, s.Reject(err)
	}
	return Volume{Type: answer.GetVolumeType(), Zone: zone, IOPS: answer.GetIops()}, nil
}

func (s v1) CreateSnapshot(ctx context.Context, volumeID, zone string, tags map[string]string) (string, error) {
	answer, err := s.client.CreateSnapshot(ctx, &volumesnapshotterv1.CreateSnapshotRequest{
		Plugin: s.Name(), VolumeID: volumeID, VolumeAZ: zone, Tags: tags,
	})
	if err != nil {
		return "", s.Wrap(err)
	}
	if err := validateID("snapshot", answer.GetSnapshotID()); err != nil {
		return "", s.Reject(err)
	}
	return answer.GetSnapshotID(), nil
}

func (s v1) DeleteSnapshot(ctx context.Context, snapshotID string) error {
	_, err := s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{
		Plugin: s.Name(), SnapshotID: snapshotID,
	})
	return s.Wrap(err)
}

func (s v1) GetVolumeID(ctx context.Context, persistentVolume []byte) (string, error) {
	answer, err := s.client.GetVolumeID(ctx, &volumesnapshotterv1.GetVolumeIDRequest{
		Plugin: s.Name(), PersistentVolume: persistentVolume,
	})
	return answer.GetVolumeID(), s.Wrap(err)
}

func (s v1) SetVolumeID(ctx context.Context, persistentVolume []byte, volumeID string) ([]byte, error) {
	answer, err := s.client.SetVolumeID(ctx, &volumesnapshotterv1.SetVolumeIDRequest{
		Plugin: s.Name(), PersistentVolume: persistentVolume, VolumeID: volumeID,
	})
	if err != nil {
		return nil, s.Wrap(err)
	}
	if err := validatePersistentVolume(persistentVolume, answer.GetPersistentVolume()); err != nil {
		return nil, s.Reject(err)
	}
	return answer.GetPersistentVolume(), nil
}
