package volumesnapshotter

import (
	"context"

	"google.golang.org/grpc"

	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Snapshotter] {
	return versioning.NewVersion(vsv1.Kind(), newV1, versioning.Calls{
		volumesnapshotterv1.VolumeSnapshotter_Init_FullMethodName:                     {Class: versioning.Query, Init: true},
		volumesnapshotterv1.VolumeSnapshotter_CreateVolumeFromSnapshot_FullMethodName: {Class: versioning.Transfer},
		volumesnapshotterv1.VolumeSnapshotter_GetVolumeInfo_FullMethodName: {Class: versioning.Transfer,
			Repeatable: true},
		volumesnapshotterv1.VolumeSnapshotter_CreateSnapshot_FullMethodName: {Class: versioning.Transfer},
		volumesnapshotterv1.VolumeSnapshotter_DeleteSnapshot_FullMethodName: {Class: versioning.Transfer},
		volumesnapshotterv1.VolumeSnapshotter_GetVolumeID_FullMethodName: {Class: versioning.Transfer,
			Repeatable: true},
		volumesnapshotterv1.VolumeSnapshotter_SetVolumeID_FullMethodName: {Class: versioning.Transfer},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Snapshotter {
	return v1{Plugin: p, client: volumesnapshotterv1.NewVolumeSnapshotterClient(conn)}
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
	return versioning.Ask(ctx, s.Plugin, s.client.CreateVolumeFromSnapshot, &volumesnapshotterv1.CreateVolumeRequest{
		Plugin: s.Name(), SnapshotID: snapshotID, VolumeType: like.Type, VolumeAZ: like.Zone, Iops: like.IOPS,
	}, func(answer *volumesnapshotterv1.CreateVolumeResponse) (string, error) {
		return answer.GetVolumeID(), validateID("volume", answer.GetVolumeID())
	})
}

func (s v1) GetVolumeInfo(ctx context.Context, volumeID, zone string) (Volume, error) {
	return versioning.Ask(ctx, s.Plugin, s.client.GetVolumeInfo, &volumesnapshotterv1.GetVolumeInfoRequest{
		Plugin: s.Name(), VolumeID: volumeID, VolumeAZ: zone,
	}, func(answer *volumesnapshotterv1.GetVolumeInfoResponse) (Volume, error) {
		return Volume{Type: answer.GetVolumeType(), Zone: zone, IOPS: answer.GetIops()}, validateIOPS(answer.GetIops())
	})
}

func (s v1) CreateSnapshot(ctx context.Context, volumeID, zone string, tags map[string]string) (string, error) {
	return versioning.Ask(ctx, s.Plugin, s.client.CreateSnapshot, &volumesnapshotterv1.CreateSnapshotRequest{
		Plugin: s.Name(), VolumeID: volumeID, VolumeAZ: zone, Tags: tags,
	}, func(answer *volumesnapshotterv1.CreateSnapshotResponse) (string, error) {
		return answer.GetSnapshotID(), validateID("snapshot", answer.GetSnapshotID())
	})
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
	return versioning.Ask(ctx, s.Plugin, s.client.SetVolumeID, &volumesnapshotterv1.SetVolumeIDRequest{
		Plugin: s.Name(), PersistentVolume: persistentVolume, VolumeID: volumeID,
	}, func(answer *volumesnapshotterv1.SetVolumeIDResponse) ([]byte, error) {
		return answer.GetPersistentVolume(), validatePersistentVolume(persistentVolume, answer.GetPersistentVolume())
	})
}
