package plugintest

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// VolumeSnapshotterV1 is the snapshotter that is registered as name. Call its Init first, as a host does.
func (p *Plugin) VolumeSnapshotterV1(name string) vsv1.VolumeSnapshotter {
	p.t.Helper()
	return volumeSnapshotterV1{p.target(vsv1.Kind().Wire, name), volumesnapshotterv1.NewVolumeSnapshotterClient(p.conn)}
}

type volumeSnapshotterV1 struct {
	target
	client volumesnapshotterv1.VolumeSnapshotterClient
}

func (s volumeSnapshotterV1) Init(ctx context.Context, config map[string]string) error {
	_, err := s.client.Init(ctx, &volumesnapshotterv1.VolumeSnapshotterInitRequest{Plugin: s.name, Config: config})
	return s.wrap(err)
}

func (s volumeSnapshotterV1) CreateVolumeFromSnapshot(ctx context.Context, snapshotID, volumeType, volumeAZ string, iops *int64) (string, error) {
	request := &volumesnapshotterv1.CreateVolumeRequest{
		Plugin: s.name, SnapshotID: snapshotID, VolumeType: volumeType, VolumeAZ: volumeAZ,
	}
	if iops != nil {
		request.Iops = *iops
	}
	answer, err := s.client.CreateVolumeFromSnapshot(ctx, request)
	return answer.GetVolumeID(), s.wrap(err)
}

func (s volumeSnapshotterV1) GetVolumeInfo(ctx context.Context, volumeID, volumeAZ string) (string, *int64, error) {
	answer, err := s.client.GetVolumeInfo(ctx, &volumesnapshotterv1.GetVolumeInfoRequest{
		Plugin: s.name, VolumeID: volumeID, VolumeAZ: volumeAZ,
	})
	if iops := answer.GetIops(); iops != 0 {
		return answer.GetVolumeType(), &iops, s.wrap(err)
	}
	return answer.GetVolumeType(), nil, s.wrap(err)
}

func (s volumeSnapshotterV1) CreateSnapshot(ctx context.Context, volumeID, volumeAZ string, tags map[string]string) (string, error) {
	answer, err := s.client.CreateSnapshot(ctx, &volumesnapshotterv1.CreateSnapshotRequest{
		Plugin: s.name, VolumeID: volumeID, VolumeAZ: volumeAZ, Tags: tags,
	})
	return answer.GetSnapshotID(), s.wrap(err)
}

func (s volumeSnapshotterV1) DeleteSnapshot(ctx context.Context, snapshotID string) error {
	_, err := s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.name, SnapshotID: snapshotID})
	return s.wrap(err)
}

func (s volumeSnapshotterV1) GetVolumeID(ctx context.Context, persistentVolume *unstructured.Unstructured) (string, error) {
	answer, err := s.client.GetVolumeID(ctx, &volumesnapshotterv1.GetVolumeIDRequest{
		Plugin: s.name, PersistentVolume: encodeItem(persistentVolume),
	})
	return answer.GetVolumeID(), s.wrap(err)
}

func (s volumeSnapshotterV1) SetVolumeID(ctx context.Context, persistentVolume *unstructured.Unstructured, volumeID string) (*unstructured.Unstructured, error) {
	answer, err := s.client.SetVolumeID(ctx, &volumesnapshotterv1.SetVolumeIDRequest{
		Plugin: s.name, PersistentVolume: encodeItem(persistentVolume), VolumeID: volumeID,
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	changed, err := decodeItem(answer.GetPersistentVolume())
	return changed, s.wrap(err)
}
